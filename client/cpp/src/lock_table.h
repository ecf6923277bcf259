// SPDX-License-Identifier: Apache-2.0
//
// The state of a client: its waiting acquires, its leases and their deadlines, and the commands that the broker must
// get. No clock, no threads, no IO: each call gets the time, adds the program's callbacks to `fx`, and the broker's
// commands to the command queue. Guarded by its Core's mutex, except for quiet().
//
// 1. Each acquire is answered exactly once, and so is each release and downgrade that has a callback. Acquires of one
//    request are all granted in one step, or all refused.
// 2. A lease lives on one stream only and ends with it.
// 3. A lease that ends here while its stream lives is also released at the broker, which would keep it for ever
//    otherwise.
#pragma once

#include <absl/container/btree_set.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "belief.h"
#include "command_queue.h"
#include "effects.h"
#include "lease.h"

namespace distlock::internal {

class LockTable {
 public:
  struct Options {
    std::string address;  // for messages
    std::string label;
    int64_t unreachable_timeout_ns;
    int64_t connect_timeout_ns;
    bool reissue_waits;
  };
  explicit LockTable(Options options) : options_(std::move(options)) {}

  // Calls of the program.
  LeasePtr Acquire(std::shared_ptr<const Spec> spec, std::optional<Duration> max_wait, LockCallback callback,
                   int64_t now_ns, Effects& fx);
  // Acquires all or nothing. Returns the first of them, for Cancel. REQUIRES: as many callbacks as specs, at least one.
  LeasePtr AcquireAll(const std::vector<std::shared_ptr<const Spec>>& specs, std::optional<Duration> max_wait,
                      std::vector<LockCallback> callbacks, int64_t now_ns, Effects& fx);
  // Withdraws the whole group of `lease`.
  void Cancel(const LeasePtr& lease, Effects& fx);
  void Release(const LeasePtr& lease, ReleaseCallback callback, int64_t now_ns, Effects& fx);
  void Downgrade(const LeasePtr& lease, DowngradeCallback callback, Effects& fx);
  // Ends the lease if its deadline has passed.
  void Notice(const LeasePtr& lease, int64_t now_ns, Effects& fx);
  std::stop_token StopToken(Lease& lease);
  // The lease's end will stop `stop`, too. False: the lease has ended already.
  bool StopsAlso(Lease& lease, std::stop_source stop);
  void Close(int64_t now_ns, Effects& fx);

  // Events of the stream, which lives from OnStarted to OnBroken.
  void OnStarted(int64_t now_ns);
  void OnEvent(const v1::SessionEvent& event, int64_t now_ns, Effects& fx);
  void OnBroken(EndCause cause, const std::string& why, int64_t now_ns, Effects& fx);
  // The status of a stream that broke.
  void OnStatus(Refusal why, Effects& fx);

  // Handles timeouts, deadlines and heartbeats. Must be called at wake_ns() at the latest; earlier calls are harmless.
  void Tick(int64_t now_ns, Effects& fx);
  int64_t wake_ns() const { return wake_ns_; }
  // The broker has not been heard for too long: the stream must be ended.
  bool Lapsed(int64_t now_ns) { return streaming_ && session_.Lapsed(now_ns); }

  // The next message, or null. Heartbeats are stamped here: now is before it is handed to the stream.
  std::unique_ptr<Batch> Pack(int64_t now_ns);
  void Recycle(std::unique_ptr<Batch> batch) { commands_.Recycle(std::move(batch)); }

  bool opened() const { return opened_; }
  bool acked() const { return acked_; }  // the broker has answered a heartbeat: the stream counts as a success
  bool draining() const { return draining_; }
  // At least two heartbeats are unanswered. Any thread.
  bool quiet() const { return quiet_.load(std::memory_order_relaxed); }

 private:
  using Live = std::map<int64_t, LeasePtr>;  // by id, so callbacks run in the order of the requests

  void OnOpened(const v1::SessionOpened& opened, int64_t now_ns, Effects& fx);
  void OnGrant(int64_t id, const v1::Grant& grant, int64_t now_ns, Effects& fx);
  void OnRefused(int64_t id, const v1::Refusal& refusal, int64_t now_ns, Effects& fx);
  void OnReleased(int64_t id, ReleaseOutcome outcome, Effects& fx);
  bool OnDowngraded(int64_t id, std::optional<Refusal> refusal, Effects& fx);
  void OnReleasedByLeaseId(int64_t id, Effects& fx);
  void OnAck(const v1::HeartbeatAck& ack, int64_t now_ns, Effects& fx);
  void OnLost(int64_t id, const v1::LeaseLost& lost, Effects& fx);
  void LoseBeforeUse(const LeasePtr& lease, const std::string& how, Effects& fx);

  LeasePtr Find(int64_t id) const;
  std::vector<LeasePtr> GroupOf(const Lease& lease) const;
  Lease& LeaderOf(Lease& lease) const;
  void RefuseGroup(const Lease& lease, const Refusal& refusal, Effects& fx);
  void DeliverGroup(const LeasePtr& lease, int64_t now_ns, Effects& fx);
  // Sends a group that fits into a message of this broker. A larger one stays unsent: held back until the broker has
  // told its limit.
  void Send(Lease& lease, int64_t now_ns);
  void SendHeldBack(int64_t now_ns, Effects& fx);
  Refusal TooLarge(size_t bytes) const;
  void Schedule(Lease& lease, int64_t at_ns);
  void Reschedule(Lease& lease);
  void Deliver(const LeasePtr& lease, Effects& fx);
  void Refuse(Lease& lease, Refusal refusal, Effects& fx);
  void End(Lease& lease, EndCause cause, std::string message, Effects& fx);
  void Wake(int64_t at_ns) { wake_ns_ = at_ns < wake_ns_ ? at_ns : wake_ns_; }
  void TimeOut(Lease& lease, int64_t now_ns, Effects& fx);
  void Leave();
  void SweepLeases(int64_t now_ns, Effects& fx);
  void CheckHeartbeat(int64_t now_ns);
  void AskForHeartbeat(int64_t now_ns);
  Refusal Unreachable(int64_t since_ns, int64_t now_ns) const;

  const Options options_;

  Live live_;                                              // in any phase but kEnded
  std::map<int64_t, ReleaseCallback> releases_;            // by the release command's id
  std::map<int64_t, DowngradeCallback> downgrades_;        // by the command's id
  absl::btree_set<std::pair<int64_t, int64_t>> timeouts_;  // of waiting acquires
  int64_t next_id_ = 1;
  size_t held_ = 0;
  bool closed_ = false;
  int64_t wake_ns_ = kNever;
  int64_t lease_deadline_ns_ = kNever;  // not later than the earliest deadline of a held lease
  std::optional<Refusal> last_failure_;

  // The present stream.
  CommandQueue commands_;
  SessionBelief session_;
  bool streaming_ = false;
  bool opened_ = false;
  bool acked_ = false;
  bool draining_ = false;
  bool leaving_ = false;  // goodbye is said; new acquires wait for the next stream
  bool heartbeat_due_ = false;
  int64_t validity_ns_ = 0;
  int64_t heartbeat_interval_ns_ = 0;
  int64_t heartbeat_at_ns_ = kNever;
  std::atomic<bool> quiet_{false};
};

// The answer to an acquire after Close.
Refusal ClosedRefusal();

}  // namespace distlock::internal
