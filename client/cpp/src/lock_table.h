// SPDX-License-Identifier: Apache-2.0
//
// The state of a client: its waiting acquires, its leases and their deadlines, and the commands that the broker must
// get. No clock, no threads, no IO: each call gets the time, adds the program's callbacks to `fx`, and the broker's
// commands to the command queue. Guarded by its Core's mutex, except for Overdue().
//
// 1. Each acquire is answered exactly once, and so is each release and downgrade that has a callback. Acquires of one
//    request are all granted in one step, or all refused.
// 2. A lease lives on one stream only. It ends with it, unless it is on its way to another one: then it ends with the
//    last promise of the former stream.
// 3. A lease that ends here while its stream lives is also released at the broker, which would keep it for ever
//    otherwise. So is one that another stream was asked to adopt.
//
// There are two links, each with a stream or none. New acquires go through the present link. When its broker drains and
// another broker is known, the other link becomes the present one; the former keeps its stream until all that is held
// through it has moved (lock_table_moves.cc).
#pragma once

#include <absl/container/btree_set.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
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
#include "link.h"
#include "process_claim.h"

namespace distlock::internal {

std::string RandomId();

class LockTable {
 public:
  struct Options {
    std::string address;  // for messages
    size_t brokers = 1;   // how many addresses these are
    std::string label;
    int64_t unreachable_timeout_ns;  // 0: by the wait, as ClientOptions says
    int64_t connect_timeout_ns;
    bool reissue_waits;
    std::function<std::string()> random_id = RandomId;  // of 32 hexadecimal digits
    std::string request_prefix = RandomId();            // of the request_ids of this table's acquires
  };
  static constexpr int kLinks = 2;
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
  // Has others see `spec` instead, which differs in metadata only. Of several that are not answered the newest counts,
  // for all of them.
  void Proclaim(const LeasePtr& lease, std::shared_ptr<const Spec> spec, ChangeCallback callback, int64_t now_ns,
                Effects& fx);
  // Ends the lease if its deadline has passed.
  void Notice(const LeasePtr& lease, int64_t now_ns, Effects& fx);
  std::stop_token StopToken(Lease& lease);
  // The lease's end will stop `stop`, too. False: the lease has ended already.
  bool StopsAlso(Lease& lease, std::stop_source stop);
  void Close(int64_t now_ns, Effects& fx);

  // The link that wants a stream when it has none. Another one after a broker has told that it drains, or has ended.
  int present() const { return present_; }

  // Events of a link's stream, which lives from OnStarted to OnBroken. Only the present link gets a new one.
  // `claim`: of this process, for a broker that can see its end.
  void OnStarted(int64_t now_ns, const std::optional<ProcessClaim>& claim = std::nullopt);
  void OnEvent(const v1::SessionEvent& event, int64_t now_ns, Effects& fx, int link = 0);
  void OnBroken(EndCause cause, const std::string& why, int64_t now_ns, Effects& fx, int link = 0);
  // The status of a stream that broke.
  void OnStatus(Refusal why, Effects& fx);

  // Handles timeouts, deadlines and heartbeats. Must be called at wake_ns() at the latest; earlier calls are harmless.
  void Tick(int64_t now_ns, Effects& fx);
  int64_t wake_ns() const { return wake_ns_; }
  // The broker has not been heard for too long: the stream must be ended.
  bool Lapsed(int64_t now_ns, int link = 0) { return at(link).streaming && at(link).session.Lapsed(now_ns); }

  // The next message, or null. Heartbeats are stamped here: now is before it is handed to the stream.
  std::unique_ptr<Batch> Pack(int64_t now_ns, int link = 0);
  // Whether Pack would find anything that is asked for already.
  bool HasToSend(int link) { return at(link).heartbeat_due || at(link).commands.HasNext(); }
  // Whether Show should say what is shown to brokers now: with each heartbeat, if the broker takes new proofs.
  bool LooksForProof(int link) { return at(link).heartbeat_due && at(link).authenticates && !at(link).leaving; }
  // Brings the link's session a proof that its broker was not shown before. nullopt: there is none.
  void Show(const std::optional<std::string>& authorization, int link);
  void Recycle(std::unique_ptr<Batch> batch, int link = 0) { at(link).commands.Recycle(std::move(batch)); }

  bool opened(int link) const { return at(link).opened; }
  bool opened() const { return opened(0) || opened(1); }
  // The broker of the present link has answered a heartbeat: its stream counts as a success.
  bool acked() const { return at(present_).acked; }
  bool draining() const { return at(present_).draining; }
  // Something is held that the present link does not hold yet: each moment counts.
  bool moving() const { return moving_; }
  // A heartbeat is unanswered, and half of what was left until `deadline_ns` when it was sent is gone. Any thread.
  bool Overdue(int64_t deadline_ns, int64_t now_ns) const {
    const int64_t since_ns = silent_since_ns_.load(std::memory_order_relaxed);
    return since_ns < now_ns && now_ns - since_ns >= (deadline_ns - since_ns) / 2;
  }

 private:
  using Live = std::map<int64_t, LeasePtr>;  // by id, so callbacks run in the order of the requests

  // A release that is not answered. Of two for one lease, at both of its sessions, the later answer ends both.
  struct PendingRelease {
    ReleaseCallback callback;
    const Link* link;
    int64_t twin = 0;                       // the other one; 0: none
    std::optional<ReleaseOutcome> of_twin;  // once that is answered
  };
  struct PendingDowngrade {
    DowngradeCallback callback;
    LeasePtr lease;
    const Link* link;  // null: not sent, because the lease is on its way
  };

  struct Leftover {
    LeasePtr lease;
    std::string request_id;
    bool lapsed;
  };

  Link& at(int link) { return links_[static_cast<size_t>(link)]; }
  const Link& at(int link) const { return links_[static_cast<size_t>(link)]; }
  Link& current() { return at(present_); }

  void OnOpened(Link& link, const v1::SessionOpened& opened, int64_t now_ns, Effects& fx);
  void OnDraining(Link& link, Duration time_left, int64_t now_ns, Effects& fx);
  void OnGrant(Link& link, int64_t id, const v1::Grant& grant, int64_t now_ns, Effects& fx);
  void OnRefused(Link& link, int64_t id, const v1::Refusal& refusal, int64_t now_ns, Effects& fx);
  void OnReleased(const Link& link, int64_t id, ReleaseOutcome outcome, Effects& fx);
  bool OnDowngraded(int64_t id, std::optional<Refusal> refusal, int64_t now_ns, Effects& fx);
  void OnReleasedByLeaseId(const Link& link, int64_t id, Effects& fx);
  void OnAck(Link& link, const v1::HeartbeatAck& ack, int64_t now_ns, Effects& fx);
  void OnLost(Link& link, int64_t id, const v1::LeaseLost& lost, int64_t now_ns, Effects& fx);
  void OnNews(const Link& link, const v1::SessionEvent& event, Effects& fx);
  void LoseBeforeUse(const LeasePtr& lease, const std::string& how, Effects& fx);
  void AnswerPending(const Link& link, const std::string& why, Effects& fx);
  bool TurnAway(Link& link, Lease& lease, const v1::Refusal& refusal, int64_t now_ns);

  // Moves.
  void MoveOn(int64_t now_ns);
  void SendMoves(int64_t now_ns, Effects& fx);
  void OnGrantByFormer(Link& link, int64_t id, Lease* lease);
  void HasArrived(Lease& lease);
  bool MayMove(const Lease& lease) const;
  void SendMove(const std::shared_ptr<Move>& move);
  std::shared_ptr<Move> FindMove(const Link& link, int64_t id) const;
  void EndMove(Move& move);
  bool OnAdopted(Link& link, int64_t id, const v1::Grant& grant, int64_t now_ns, Effects& fx);
  void Arrive(const LeasePtr& lease, Link& link, int64_t id, const v1::Grant& grant, int64_t now_ns, Effects& fx);
  bool OnNotAdopted(Link& link, int64_t id, const v1::Refusal& wire, int64_t now_ns, Effects& fx);
  void Stay(Lease& lease, int64_t now_ns, Effects& fx);
  bool Survives(const Lease& lease, int64_t now_ns) const;
  void Orphan(Lease& lease, const std::string& why);
  void GiveBack(const LeasePtr& lease, bool lapsed, ReleaseCallback callback, Effects& fx);
  void RememberLeftover(const LeasePtr& lease, bool lapsed);
  void GiveBackLeftovers();
  void Lose(const LeasePtr& lease, EndCause cause, const std::string& message, Effects& fx);
  void LeaveWhenEmpty(Link& link);
  std::vector<LeasePtr> HoldsOf(const LeasePtr& lease) const;
  bool HeldElsewhere(const Lease& lease) const;
  void SendDowngrades(const Lease& lease);
  // Proclamations: a session adopts its own lease.
  static const std::shared_ptr<const Spec>& NextSpec(const Lease& lease);
  void OnShown(Lease& lease, const std::shared_ptr<const Spec>& spec, int64_t now_ns, Effects& fx);
  bool OnNotShown(Lease& lease, const Refusal& refusal, Effects& fx);

  LeasePtr Find(int64_t id) const;
  std::vector<LeasePtr> GroupOf(const Lease& lease) const;
  Lease& LeaderOf(Lease& lease) const;
  // Names the acquire to whichever broker it is sent, so that it keeps its place. "": it has no place to keep.
  std::string RequestIdOf(const Lease& leader) const;
  void RefuseGroup(const Lease& lease, const Refusal& refusal, Effects& fx);
  void DeliverGroup(const LeasePtr& lease, int64_t now_ns, Effects& fx);
  // Sends a group that fits into a message of this broker. A larger one stays unsent: held back until the broker has
  // told its limit.
  void Send(Lease& lease, int64_t now_ns);
  void SendHeldBack(int64_t now_ns, Effects& fx);
  Refusal TooLarge(size_t bytes) const;
  void Schedule(Lease& lease, int64_t at_ns);
  // For how long a broker is looked for.
  int64_t PatienceOf(const Lease& lease) const;
  void Reschedule(Lease& lease);
  void Deliver(const LeasePtr& lease, Effects& fx);
  void Refuse(Lease& lease, Refusal refusal, Effects& fx);
  void End(Lease& lease, EndCause cause, std::string message, Effects& fx);
  void Wake(int64_t at_ns) { wake_ns_ = at_ns < wake_ns_ ? at_ns : wake_ns_; }
  void TimeOut(Lease& lease, int64_t now_ns, Effects& fx);
  void Leave(Link& link);
  void SweepLeases(int64_t now_ns, Effects& fx);
  void CheckHeartbeat(Link& link, int64_t now_ns);
  // For a lease that was granted until `deadline_ns`.
  void AskForHeartbeat(Link& link, int64_t deadline_ns, int64_t now_ns);
  // Sends the next heartbeat at the latest when half of what is left until the deadline is gone.
  void BeatHalfWay(Link& link, int64_t deadline_ns, int64_t now_ns);
  void NoteSilence();
  bool HoldsAnything(const Link& link) const;
  Refusal Unreachable(int64_t since_ns, int64_t now_ns) const;

  const Options options_;

  Live live_;                                              // in any phase but kEnded
  std::map<int64_t, PendingRelease> releases_;             // by the release command's id
  std::map<int64_t, PendingDowngrade> downgrades_;         // by the command's id
  std::map<int64_t, std::shared_ptr<Move>> moves_;         // that are sent, by the command's id
  std::vector<Leftover> leftovers_;                        // that ended while no session had them
  absl::btree_set<std::pair<int64_t, int64_t>> timeouts_;  // of waiting acquires
  int64_t next_id_ = 1;
  int32_t sessions_ = 0;  // opened so far
  bool closed_ = false;
  int64_t wake_ns_ = kNever;
  int64_t lease_deadline_ns_ = kNever;  // not later than the earliest deadline of a held lease
  int64_t moves_at_ns_ = kNever;        // when leases are to be moved again
  bool moving_ = false;                 // a lease may be held outside of the present link
  std::optional<Refusal> last_failure_;

  std::array<Link, kLinks> links_;
  int present_ = 0;
  std::atomic<int64_t> silent_since_ns_{kNever};  // the oldest unanswered heartbeat of all links
};

// The answer to an acquire after Close.
Refusal ClosedRefusal();
Refusal CancelledRefusal();

}  // namespace distlock::internal
