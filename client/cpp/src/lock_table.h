// SPDX-License-Identifier: Apache-2.0
//
// The state of a client: its acquires, its leases and their deadlines, and what brokers are to be told. A state machine
// without clock, threads or IO: each call gets the time, as CLOCK_BOOTTIME nanoseconds, and adds what the program is to
// hear to `fx`; Pack has what a broker is to hear. Its rules are those of proto/distlock/v1/session.md. Guarded by its
// Engine's mutex, except for IsOverdue().
//
// Each acquire is answered exactly once, and so is each release, downgrade and proclamation that has a callback.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "held_leases.h"
#include "moves.h"
#include "process_claim.h"
#include "requests.h"
#include "sessions.h"

namespace distlock::internal {

class LockTable {
 public:
  using Options = TableOptions;
  static constexpr int kLinks = Sessions::kLinks;
  explicit LockTable(Options options) : options_(std::move(options)) {}
  LockTable(const LockTable&) = delete;
  LockTable& operator=(const LockTable&) = delete;

  // Calls of the program.
  // Takes all locks or none. REQUIRES: at least one.
  RequestPtr Acquire(std::span<const SpecPtr> specs, std::optional<Duration> max_wait, AcquireCallback answer,
                     int64_t now_ns, Effects& fx) {
    return requests_.Add(specs, max_wait, std::move(answer), now_ns, fx);
  }
  // Withdraws it, unless it is answered.
  void Cancel(Request& request, Effects& fx);
  void Release(const LeasePtr& lease, ReleaseCallback callback, int64_t now_ns, Effects& fx) {
    held_.Release(lease, std::move(callback), now_ns, fx);
  }
  void Downgrade(const LeasePtr& lease, ChangeCallback callback, Effects& fx) {
    moves_.Downgrade(lease, std::move(callback), fx);
  }
  // Has others see `spec` instead, which differs in metadata only.
  void Proclaim(const LeasePtr& lease, SpecPtr spec, ChangeCallback callback, int64_t now_ns, Effects& fx) {
    moves_.Proclaim(lease, std::move(spec), std::move(callback), now_ns, fx);
  }
  // Ends the lease if its deadline has passed. True: it is still held.
  bool Notice(const LeasePtr& lease, int64_t now_ns, Effects& fx) { return held_.Notice(lease, now_ns, fx); }
  static std::stop_token StopToken(Lease& lease);
  void Close(int64_t now_ns, Effects& fx);

  // The link that wants a stream when it has none. Another one after a broker has told that it drains, or has ended.
  int present() const { return sessions_.present; }
  Link& at(int link) { return sessions_.at(link); }

  // Events of a link's stream, which lives from OnStarted to OnBroken. Only the present link gets a new one.
  // `claim`: of this process, for a broker that can see its end. `proof`: what the call shows, if anything.
  void OnStarted(int64_t now_ns, const std::optional<ProcessClaim>& claim, const std::optional<std::string>& proof,
                 Effects& fx);
  void OnEvent(const v1::SessionEvent& event, int64_t now_ns, Effects& fx, int link);
  // `failure`: the status of the stream, if it is known and no success.
  void OnBroken(EndCause cause, const std::string& why, const std::optional<Refusal>& failure, int64_t now_ns,
                Effects& fx, int link);

  // Handles timeouts, deadlines and heartbeats. Must be called at wake_ns() at the latest; earlier calls are harmless.
  void Tick(int64_t now_ns, Effects& fx);
  int64_t wake_ns() const;

  // Fills in the next message. False: there is none. Heartbeats are stamped here: now is before it is handed to the
  // stream.
  bool Pack(int64_t now_ns, int link, v1::SessionRequest& message);
  // Brings the link's session a proof that its broker was not shown before. nullopt: there is none.
  void Show(const std::optional<std::string>& authorization, int link);

  bool closed() const { return sessions_.closed; }
  bool opened() const { return sessions_.links[0].opened || sessions_.links[1].opened; }
  // Nothing is held or waited for.
  bool empty() const { return held_.empty() && requests_.empty(); }
  // Something waits for a session that adopts it: each moment counts.
  bool moving() const { return held_.moving || !held_.leftovers.empty(); }
  // A heartbeat is unanswered, and half of what was left until `deadline_ns` when it was sent is gone. Any thread.
  bool IsOverdue(int64_t deadline_ns, int64_t now_ns) const {
    const int64_t since_ns = silent_since_ns_.load(std::memory_order_relaxed);
    return since_ns < now_ns && now_ns - since_ns >= (deadline_ns - since_ns) / 2;
  }

 private:
  void OnOpened(Link& link, const v1::SessionOpened& opened, int64_t now_ns, Effects& fx);
  void OnQueued(const LeasePtr& lease, const v1::AcquireQueued& queued, Effects& fx);
  void OnGranted(Link& link, int64_t id, const v1::Grant& grant, int64_t now_ns, Effects& fx);
  void OnRefused(Link& link, int64_t id, const v1::Refusal& refusal, int64_t now_ns, Effects& fx);
  bool TurnsAway(Link& link, Request& request, const Refusal& refusal, int64_t now_ns, Effects& fx);
  void OnReleased(Link& link, int64_t id, const v1::LeaseReleased& released, int64_t now_ns, Effects& fx);
  void OnAck(Link& link, const v1::HeartbeatAck& ack, int64_t now_ns, Effects& fx);
  void OnLost(const LeasePtr& lease, const v1::LeaseLost& lost, int64_t now_ns, Effects& fx);
  void OnGone(const LeasePtr& lease, EndCause cause, const std::string& message, Effects& fx);
  // A held or waiting lease of this link under this id; null: there is none.
  LeasePtr Find(const Link& link, int64_t id) const;
  // Has a session free what it has granted under this id, which is never believed in.
  void GiveBack(Link& link, int64_t id);
  void NoteSilence();

  const Options options_;
  Sessions sessions_;
  HeldLeases held_{options_, sessions_};
  Requests requests_{options_, sessions_, held_};
  Moves moves_{options_, sessions_, held_, requests_};
  int32_t opened_before_ = 0;                     // sessions
  std::atomic<int64_t> silent_since_ns_{kNever};  // the oldest unanswered heartbeat of all links
};

}  // namespace distlock::internal
