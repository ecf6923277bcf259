// SPDX-License-Identifier: Apache-2.0
#include "lock_table.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace distlock::internal {

void LockTable::Cancel(Request& request, Effects& fx) {
  if (request.answered) return;
  requests_.Withdraw(request);
  requests_.Refuse(request, CancelledRefusal(), fx);
}

std::stop_token LockTable::StopToken(Lease& lease) {
  if (!lease.stop.stop_possible()) {
    lease.stop = std::stop_source();
    // No program has this token yet, so this runs no callback of it under the mutex.
    if (lease.phase == Lease::Phase::kEnded) lease.stop.request_stop();
  }
  return lease.stop.get_token();
}

void LockTable::Close(int64_t now_ns, Effects& fx) {
  sessions_.closed = true;
  const Refusal closed{.reason = RefusalReason::kClientClosed, .message = "the Client was destroyed while waiting"};
  for (const RequestPtr& request : requests_.All()) requests_.Refuse(*request, closed, fx);
  held_.ForEach([&](const LeasePtr& lease) {
    const EndCause cause = now_ns < lease->deadline_ns ? EndCause::kClientClosed : EndCause::kLapsed;
    held_.End(lease, cause, "the Client was destroyed", /*gone=*/true, fx);
  });
  for (Link& link : sessions_.links) {
    if (link.usable()) requests_.Leave(link);
  }
}

void LockTable::OnStarted(int64_t now_ns, const std::optional<ProcessClaim>& claim,
                          const std::optional<std::string>& proof, Effects& fx) {
  Link& link = sessions_.current();
  link.Begin(now_ns, options_.connect_timeout_ns);
  link.shown = proof;
  link.Add(0, [this, claim, id = sessions_.TakeIds(), generation = opened_before_++](v1::SessionCommand& command) {
    command.set_id(id);  // its event comes before the broker has told its limit
    v1::OpenSession& open = *command.mutable_open();
    open.set_client(options_.label);
    open.set_generation(generation);
    if (!claim) return;
    open.mutable_process()->set_boot_id(claim->boot_id);
    open.mutable_process()->set_pidfd_inode(claim->pidfd_inode);
  });
  held_.ForEach([](const LeasePtr& lease) { lease->stays = false; });
  requests_.SendUnsent(now_ns, fx);
}

void LockTable::Tick(int64_t now_ns, Effects& fx) {
  if (now_ns >= held_.ends_at_ns) held_.Sweep(now_ns, fx);
  if (now_ns >= held_.moves_at_ns) moves_.Send(now_ns, fx);
  requests_.TimeOut(now_ns, fx);
  for (Link& link : sessions_.links) link.Tick(now_ns);
}

int64_t LockTable::wake_ns() const {
  return std::min({held_.ends_at_ns, held_.moves_at_ns, requests_.wake_ns(), sessions_.links[0].wake_ns(),
                   sessions_.links[1].wake_ns()});
}

bool LockTable::Pack(int64_t now_ns, int number, v1::SessionRequest& message) {
  Link& link = sessions_.at(number);
  moves_.LeaveWhenEmpty(link);
  const bool packed = link.Pack(now_ns, message);
  NoteSilence();
  return packed;
}

void LockTable::NoteSilence() {
  int64_t since_ns = kNever;
  for (const Link& link : sessions_.links) since_ns = std::min(since_ns, link.session.unanswered_since_ns());
  silent_since_ns_.store(since_ns, std::memory_order_relaxed);
}

void LockTable::Show(const std::optional<std::string>& authorization, int number) {
  Link& link = sessions_.at(number);
  if (!authorization || authorization == link.shown) return;
  link.shown = authorization;
  link.Ask(
      sessions_.TakeIds(),
      [authorization](v1::SessionCommand& command) {
        command.mutable_authenticate()->set_authorization(*authorization);
      },
      [&link](const Answer& answer, int64_t, Effects&) {
        if (answer.refusal) link.shown = std::nullopt;  // it is brought again with a later heartbeat
      },
      authorization->size() + kCommandBytes);
}

LeasePtr LockTable::Find(const Link& link, int64_t id) const {
  LeasePtr lease = held_.Find(id);
  if (lease == nullptr) lease = requests_.Find(id);
  return lease == nullptr || lease->link != &link ? nullptr : lease;
}

void LockTable::OnEvent(const v1::SessionEvent& event, int64_t now_ns, Effects& fx, int number) {
  Link& link = sessions_.at(number);
  const int64_t id = event.id();
  link.OnEvent(id);
  switch (event.event_case()) {
    case v1::SessionEvent::kGranted:
      return OnGranted(link, id, event.granted(), now_ns, fx);
    case v1::SessionEvent::kReleased:
      return OnReleased(link, id, event.released(), now_ns, fx);
    case v1::SessionEvent::kRefused:
      return OnRefused(link, id, event.refused(), now_ns, fx);
    case v1::SessionEvent::kHeartbeatAck:
      return OnAck(link, event.heartbeat_ack(), now_ns, fx);
    case v1::SessionEvent::kOpened:
      return OnOpened(link, event.opened(), now_ns, fx);
    case v1::SessionEvent::kDraining:
      return moves_.OnDraining(link, Duration(ToNs(event.draining().time_left())), now_ns, fx);
    case v1::SessionEvent::kDowngraded:
    case v1::SessionEvent::kAuthenticated:
      link.OnAnswer(id, {}, now_ns, fx);
      return;
    default:
      break;
  }
  const LeasePtr lease = Find(link, id);
  if (lease == nullptr) return;
  if (event.has_queued()) OnQueued(lease, event.queued(), fx);
  if (event.has_lost()) OnLost(lease, event.lost(), now_ns, fx);
  if (event.has_at_risk()) lease->risk = event.at_risk().cause();
  if (event.has_at_risk() || event.has_renewed()) lease->at_risk.store(event.has_at_risk(), std::memory_order_relaxed);
}

void LockTable::OnOpened(Link& link, const v1::SessionOpened& opened, int64_t now_ns, Effects& fx) {
  link.OnOpened(opened, now_ns);
  if (sessions_.IsCurrent(&link)) moves_.Send(now_ns, fx);
  for (const RequestPtr& request : requests_.All()) {
    if (request->link() == &link && !request->turned_away) requests_.Arrive(*request);
  }
}

// The present broker has the request, and so its place: the former session matters no more.
void LockTable::OnQueued(const LeasePtr& lease, const v1::AcquireQueued& queued, Effects& fx) {
  if (lease->request == nullptr) return;  // it is held already: the broker has gone mad
  Request& request = *lease->request;
  for (const LeasePtr& part : request.leases) {
    if (part->crossed && part != lease) continue;
    if (part->crossed) GiveBack(*part->former, part->id);
    part->LeaveFormer();
  }
  request.turned_away = false;
  requests_.Arrive(request);
  if (!lease->spec->on_queued) return;
  fx.Add(Effects::By::kExecutor, [spec = lease->spec, info = ToQueued(queued)] { spec->on_queued(info); });
}

void LockTable::GiveBack(Link& link, int64_t id) {
  link.Ask(
      sessions_.TakeIds(), [id](v1::SessionCommand& command) { command.mutable_release()->set_acquire_id(id); },
      [](const Answer&, int64_t, Effects&) {});
}

void LockTable::OnGranted(Link& link, int64_t id, const v1::Grant& grant, int64_t now_ns, Effects& fx) {
  const LeasePtr lease = requests_.Find(id);
  if (lease != nullptr && lease->former == &link) {
    lease->crossed = true;  // given back when the next broker has the place
    return;
  }
  if (lease == nullptr || lease->link != &link) {
    if (link.OnAnswer(id, {.grant = &grant}, now_ns, fx) || Find(link, id) != nullptr) return;
    // Else an id that was given up, and that the broker hears of.
    if (!sessions_.IsCurrent(&link)) GiveBack(link, id);
    return;
  }
  if (lease->phase != Lease::Phase::kWaiting) return;
  lease->LeaveFormer();
  lease->granted = {grant.lease_id(), grant.holder_id()};
  lease->token = grant.fencing_token();
  lease->waited_ns = ToNs(grant.waited());
  lease->hold_count = std::max(grant.hold_count(), 1);  // whatever the broker says
  const int64_t deadline_ns = link.session.DeadlineOf(grant.echo_seq(), ToNs(grant.valid_for()));
  lease->deadline_ns.store(deadline_ns, std::memory_order_release);
  lease->phase = Lease::Phase::kGranted;
  lease->store = link.store;
  link.BeatForGrant(deadline_ns, now_ns);
  requests_.Deliver(*lease->request, now_ns, fx);
}

void LockTable::OnRefused(Link& link, int64_t id, const v1::Refusal& wire, int64_t now_ns, Effects& fx) {
  const Refusal refusal = ToRefusal(wire);
  const LeasePtr lease = requests_.Find(id);
  if (lease == nullptr) {
    link.OnAnswer(id, {.refusal = refusal}, now_ns, fx);
    return;
  }
  if (lease->former == &link) lease->LeaveFormer();
  if (lease->link != &link) return;
  if (refusal.reason == RefusalReason::kDraining && TurnsAway(link, *lease->request, refusal, now_ns, fx)) return;
  requests_.Refuse(*lease->request, refusal, fx);
}

// The broker drains: has the request ask another one. False: the refusal is the answer to it.
bool LockTable::TurnsAway(Link& link, Request& request, const Refusal& refusal, int64_t now_ns, Effects& fx) {
  const bool only = options_.brokers == 1;
  if (!options_.reissue_waits || (only && held_.Has(link))) return false;
  requests_.last_failure = refusal;
  request.turned_away = true;
  requests_.Strand(request, now_ns);
  if (only) {
    requests_.Leave(link);
  } else {
    moves_.OnDrains(link, now_ns);
    if (!sessions_.IsCurrent(&link)) requests_.SendUnsent(now_ns, fx);
  }
  return true;
}

void LockTable::OnReleased(Link& link, int64_t id, const v1::LeaseReleased& released, int64_t now_ns, Effects& fx) {
  if (link.OnAnswer(id, {.outcome = ToOutcome(released.outcome())}, now_ns, fx)) return;
  // Under the acquire's own id: another program that knows the lease_id released the lease.
  if (const LeasePtr lease = Find(link, id)) OnGone(lease, EndCause::kReleased, "released by its lease_id", fx);
}

void LockTable::OnAck(Link& link, const v1::HeartbeatAck& ack, int64_t now_ns, Effects& fx) {
  if (!link.session.Ack(ack.seq(), ToNs(ack.valid_for()), now_ns)) return;
  requests_.last_failure.reset();
  NoteSilence();
  absl::flat_hash_map<int64_t, int64_t> limits;
  for (const v1::LeaseLimit& limit : ack.limits()) {
    limits[limit.acquire_id()] = link.session.DeadlineOf(ack.seq(), ToNs(limit.valid_for()));
  }
  const int64_t promised_ns = link.session.DeadlineOf(ack.seq(), ToNs(ack.valid_for()));
  int64_t first_ns = kNever;
  const auto extend = [&](Lease& lease) {
    const auto limit = limits.find(lease.id);
    const int64_t deadline_ns = limit != limits.end()
                                    ? limit->second
                                    : std::max(promised_ns, lease.deadline_ns.load(std::memory_order_relaxed));
    lease.deadline_ns.store(deadline_ns, std::memory_order_release);
    if (now_ns < deadline_ns) first_ns = std::min(first_ns, deadline_ns);  // what is over needs no further ack
  };
  held_.ForEach([&](const LeasePtr& lease) {
    if (lease->link == &link && held_.Notice(lease, now_ns, fx)) extend(*lease);
  });
  for (const RequestPtr& request : requests_.All()) {
    if (request->link() != &link) continue;
    for (const LeasePtr& lease : request->leases) {
      if (lease->phase == Lease::Phase::kGranted) extend(*lease);
    }
    requests_.Deliver(*request, now_ns, fx);
  }
  held_.Sweep(now_ns, fx);
  // A lease with a short ttl may have a deadline within the heartbeat interval: it needs its next ack sooner.
  if (first_ns != kNever) link.BeatBeforeHalf(first_ns, now_ns);
}

void LockTable::OnLost(const LeasePtr& lease, const v1::LeaseLost& lost, int64_t now_ns, Effects& fx) {
  const bool held = lease->phase == Lease::Phase::kHeld;
  if (held && lost.reason() == v1::LOST_REASON_MOVED && !lease->move_key.empty()) {
    lease->link = nullptr;  // by the move that is under way: no later ack of this session speaks for the lease
  } else if (held && lost.reason() == v1::LOST_REASON_DRAINED && moves_.Survives(*lease, now_ns)) {
    moves_.Orphan(*lease, lost.message());
  } else {
    OnGone(lease, ToEndCause(lost.reason()), lost.message(), fx);
  }
}

// Its session does not have it any more. A broker that adopted it may keep the lock after max_hold for a former
// promise, until its client says that belief has ended.
void LockTable::OnGone(const LeasePtr& lease, EndCause cause, const std::string& message, Effects& fx) {
  if (lease->phase == Lease::Phase::kHeld) {
    return held_.End(lease, cause, message, /*gone=*/cause != EndCause::kMaxHold, fx);
  }
  if (lease->phase != Lease::Phase::kGranted) return;
  Request& request = *lease->request;
  lease->phase = Lease::Phase::kEnded;
  requests_.Withdraw(request);
  requests_.Refuse(request,
                   {.reason = RefusalReason::kLeaseLost, .message = absl::StrCat("lost before use: ", message)}, fx);
}

void LockTable::OnBroken(EndCause cause, const std::string& why, const std::optional<Refusal>& failure, int64_t now_ns,
                         Effects& fx, int number) {
  Link& link = sessions_.at(number);
  held_.ForEach([&](const LeasePtr& lease) {
    if (lease->to == &link) lease->to = nullptr;  // to be asked again
    if (lease->link != &link) return;
    if (moves_.Survives(*lease, now_ns)) return moves_.Orphan(*lease, why);
    held_.End(lease, now_ns < lease->deadline_ns ? cause : EndCause::kLapsed, why, /*gone=*/true, fx);
  });
  if (failure) requests_.last_failure = failure;
  for (const RequestPtr& request : requests_.All()) {
    for (const LeasePtr& lease : request->leases) {
      if (lease->former == &link) lease->LeaveFormer();
    }
    const bool unsent = request->link() == nullptr;
    if (request->link() == &link || (unsent && number == present())) {
      requests_.Strand(*request, now_ns);
      if (!options_.reissue_waits) {
        requests_.Refuse(*request, {.reason = RefusalReason::kUnreachable, .message = why}, fx);
        continue;
      }
    }
    if (request->link() == nullptr && failure && IsPermanent(failure->reason)) requests_.Refuse(*request, *failure, fx);
  }
  link.End(why, now_ns, fx);
  NoteSilence();
  moves_.MoveOn(now_ns);
}

}  // namespace distlock::internal
