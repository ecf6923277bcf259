// SPDX-License-Identifier: Apache-2.0
#include "lock_table.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <iterator>

namespace distlock::internal {
namespace {

// The broker ends a bounded wait. When it stays silent, the client ends the wait itself after this much more time.
constexpr int64_t kAnswerGrace = 500'000'000;
constexpr int64_t kPatienceOfOneTry = 1'000'000'000;
constexpr int64_t kPatienceOfEndlessWait = 10'000'000'000;
constexpr int64_t kSmallestWait = 1'000'000;  // 0 would turn a bounded wait into one try

// Reasons for which a broker refuses a whole session. They tell the user more than "unreachable".
bool CameFromBroker(RefusalReason reason) {
  return reason == RefusalReason::kDraining || reason == RefusalReason::kQuotaExceeded ||
         reason == RefusalReason::kStoreUnavailable || reason == RefusalReason::kQuorumNotReached;
}

std::string Millis(int64_t ns) { return absl::StrCat(ns / 1'000'000, " ms"); }

}  // namespace

Refusal CancelledRefusal() { return {.reason = RefusalReason::kCancelled, .message = "cancelled by the caller"}; }

Refusal ClosedRefusal() {
  return {.reason = RefusalReason::kClientClosed, .message = "the Client was destroyed; make a new one"};
}

LeasePtr LockTable::Acquire(std::shared_ptr<const Spec> spec, std::optional<Duration> max_wait, LockCallback callback,
                            int64_t now_ns, Effects& fx) {
  auto lease = std::make_shared<Lease>(next_id_++, std::move(spec));
  lease->callback = std::move(callback);
  lease->asked_ns = now_ns;
  lease->one_try = max_wait && *max_wait <= Duration::zero();
  if (max_wait && !lease->one_try) lease->wait_until_ns = AddNs(now_ns, max_wait->count());
  if (closed_) {
    Refuse(*lease, ClosedRefusal(), fx);
    return lease;
  }
  if (lease->spec->problem) {
    Refuse(*lease, *lease->spec->problem, fx);
    return lease;
  }
  live_.emplace(lease->id, lease);
  if (!current().opened) lease->stranded_ns = now_ns;
  if (current().streaming && !current().leaving) Send(*lease, now_ns);
  Reschedule(*lease);
  return lease;
}

void LockTable::Cancel(const LeasePtr& lease, Effects& fx) {
  if (lease->phase == Lease::Phase::kHeld || lease->phase == Lease::Phase::kEnded || lease->cancelling) return;
  bool any_granted = false;
  for (const LeasePtr& part : GroupOf(*lease)) {
    part->cancelling = true;
    any_granted = any_granted || part->phase == Lease::Phase::kGranted;
  }
  if (lease->link != nullptr && !any_granted) {
    lease->link->commands.Cancel(next_id_++, lease->id);
    return;  // the callback runs when the broker has answered
  }
  RefuseGroup(*lease, {.reason = RefusalReason::kCancelled, .message = "cancelled by the caller"}, fx);
}

void LockTable::Release(const LeasePtr& lease, ReleaseCallback callback, int64_t now_ns, Effects& fx) {
  if (lease->phase != Lease::Phase::kHeld) {
    if (callback) fx.released.emplace_back(std::move(callback), ReleaseOutcome::kAlreadyGone);
    // The thread that saw the end may not have stopped the token yet; who released must find it stopped.
    if (lease->stop.stop_possible()) fx.stopped.push_back(lease->stop);
    return;
  }
  const bool believed = lease->belief.Believes(now_ns);
  RememberLeftover(lease, /*lapsed=*/false);
  GiveBack(lease, /*lapsed=*/false, std::move(callback), fx);
  End(*lease, believed ? EndCause::kReleased : EndCause::kLapsed, believed ? "" : "released after its deadline", fx);
  live_.erase(lease->id);
}

void LockTable::Downgrade(const LeasePtr& lease, DowngradeCallback callback, Effects& fx) {
  if (lease->phase != Lease::Phase::kHeld || (lease->link != nullptr && lease->link->leaving)) {
    fx.changed.emplace_back(std::move(callback),
                            Refusal{.reason = RefusalReason::kNotHolder, .message = "the lock has ended"});
    return;
  }
  downgrades_.emplace(next_id_++, PendingDowngrade{std::move(callback), lease, nullptr});
  SendDowngrades(*lease);
}

void LockTable::Notice(const LeasePtr& lease, int64_t now_ns, Effects& fx) {
  if (lease->phase != Lease::Phase::kHeld) return;
  lease->belief.Notice(now_ns);
  if (!lease->belief.lapsed()) return;
  RememberLeftover(lease, /*lapsed=*/true);
  const Link& link = lease->link != nullptr ? *lease->link : current();
  const bool heard = link.streaming && link.opened && now_ns < link.session.deadline_ns();
  if (heard && lease->at_risk.load(std::memory_order_relaxed)) {
    Lose(lease, EndCause::kExpired, absl::StrCat("could not be renewed in time: ", lease->risk), fx);
  } else if (heard && lease->link != nullptr && lease->spec->wire.has_max_hold()) {
    // While the session is alive and no renewal has failed, only max_hold lets the deadline of a single lease pass.
    Lose(lease, EndCause::kMaxHold, "held for max_hold", fx);
  } else {
    Lose(lease, EndCause::kLapsed, "the broker was not heard until the deadline", fx);
  }
}

std::stop_token LockTable::StopToken(Lease& lease) {
  if (!lease.stop.stop_possible()) {
    lease.stop = std::stop_source();
    // Nobody has this token yet, so this runs no callback of the program under the mutex.
    if (lease.phase == Lease::Phase::kEnded) lease.stop.request_stop();
  }
  return lease.stop.get_token();
}

bool LockTable::StopsAlso(Lease& lease, std::stop_source stop) {
  if (lease.phase == Lease::Phase::kEnded) return false;
  lease.also_stops.push_back(std::move(stop));
  return true;
}

void LockTable::Close(int64_t now_ns, Effects& fx) {
  closed_ = true;
  for (auto& [id, lease] : live_) {
    if (lease->phase == Lease::Phase::kHeld) {
      const bool believed = lease->belief.Believes(now_ns);
      End(*lease, believed ? EndCause::kClientClosed : EndCause::kLapsed, "the Client was destroyed", fx);
    } else {
      Refuse(*lease, {.reason = RefusalReason::kClientClosed, .message = "the Client was destroyed while waiting"}, fx);
    }
  }
  live_.clear();
  for (Link& link : links_) {
    if (link.streaming && !link.leaving) Leave(link);
  }
}

void LockTable::Tick(int64_t now_ns, Effects& fx) {
  if (now_ns >= lease_deadline_ns_) SweepLeases(now_ns, fx);
  if (now_ns >= moves_at_ns_) SendMoves(now_ns, fx);
  while (!timeouts_.empty() && timeouts_.begin()->first <= now_ns) {
    const LeasePtr lease = Find(timeouts_.begin()->second);
    Schedule(*lease, kNever);
    TimeOut(*lease, now_ns, fx);
  }
  wake_ns_ = kNever;
  for (Link& link : links_) {
    if (!link.streaming) continue;
    Wake(link.session.deadline_ns());
    CheckHeartbeat(link, now_ns);
  }
  Wake(lease_deadline_ns_);
  Wake(moves_at_ns_);
  if (!timeouts_.empty()) Wake(timeouts_.begin()->first);
}

std::unique_ptr<Batch> LockTable::Pack(int64_t now_ns, int number) {
  Link& link = at(number);
  if (number != present_) LeaveWhenEmpty(link);
  if (link.heartbeat_due) {
    link.heartbeat_due = false;
    link.commands.Heartbeat(link.session.Send(now_ns));
    NoteSilence();
    link.heartbeat_at_ns = AddNs(now_ns, link.heartbeat_interval_ns);
  }
  return link.commands.Take();
}

void LockTable::Show(const std::optional<std::string>& authorization, int number) {
  Link& link = at(number);
  if (!authorization || authorization == link.shown) return;
  link.shown = authorization;
  if (!link.opened || link.leaving) return;
  link.proof_id = next_id_++;
  link.commands.Authenticate(link.proof_id, *authorization);
}

LeasePtr LockTable::Find(int64_t id) const {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : found->second;
}

void LockTable::Send(Lease& lease, int64_t now_ns) {
  if (!lease.leads() || HeldElsewhere(lease)) return;
  Link& link = current();
  const int64_t left_ns = lease.wait_until_ns == kNever ? -1 : std::max(lease.wait_until_ns - now_ns, kSmallestWait);
  const int64_t max_wait_ns = lease.one_try ? 0 : left_ns;
  if (lease.group.size == 1) {
    lease.link = &link;
    const v1::LockSpec* const lock = &lease.spec->wire;
    return link.commands.Acquire(lease.id, {&lock, 1}, lease.spec->wire_bytes, max_wait_ns, RequestIdOf(lease));
  }
  const std::vector<LeasePtr> parts = GroupOf(lease);
  std::vector<const v1::LockSpec*> locks;
  size_t bytes = 0;
  for (const LeasePtr& part : parts) {
    locks.push_back(&part->spec->wire);
    bytes += part->spec->wire_bytes;
  }
  if (bytes > link.commands.batch_bytes()) return;
  for (const LeasePtr& part : parts) part->link = &link;
  link.commands.Acquire(lease.id, locks, bytes, max_wait_ns, RequestIdOf(lease));
}

std::string LockTable::RequestIdOf(const Lease& leader) const {
  return leader.one_try ? std::string() : absl::StrCat(options_.request_prefix, leader.group.first);
}

void LockTable::Schedule(Lease& lease, int64_t at_ns) {
  if (at_ns == lease.wake_ns) return;
  if (lease.wake_ns != kNever) timeouts_.erase({lease.wake_ns, lease.id});
  lease.wake_ns = at_ns;
  if (at_ns == kNever) return;
  timeouts_.emplace(at_ns, lease.id);
  Wake(at_ns);
}

int64_t LockTable::PatienceOf(const Lease& lease) const {
  if (options_.unreachable_timeout_ns > 0) return options_.unreachable_timeout_ns;
  if (lease.one_try) return kPatienceOfOneTry;
  return lease.wait_until_ns == kNever ? kPatienceOfEndlessWait : kNever;
}

void LockTable::Reschedule(Lease& lease) {
  if (!lease.leads()) return;
  int64_t at_ns = lease.wait_until_ns;
  if (lease.stranded_ns == kNever) {
    at_ns = AddNs(at_ns, kAnswerGrace);
  } else {
    at_ns = std::min(at_ns, AddNs(lease.stranded_ns, PatienceOf(lease)));
  }
  Schedule(lease, at_ns);
}

void LockTable::Deliver(const LeasePtr& lease, Effects& fx) {
  lease->phase = Lease::Phase::kHeld;
  lease_deadline_ns_ = std::min(lease_deadline_ns_, lease->belief.deadline_ns());
  Wake(lease_deadline_ns_);
  fx.granted.emplace_back(lease, std::move(lease->callback));
  lease->callback = nullptr;
}

void LockTable::Refuse(Lease& lease, Refusal refusal, Effects& fx) {
  if (lease.callback) fx.refused.emplace_back(std::move(lease.callback), std::move(refusal));
  lease.callback = nullptr;
  lease.phase = Lease::Phase::kEnded;
  Schedule(lease, kNever);
}

void LockTable::End(Lease& lease, EndCause cause, std::string message, Effects& fx) {
  lease.phase = Lease::Phase::kEnded;
  lease.move = nullptr;
  OnNotShown(lease, {.reason = RefusalReason::kNotHolder, .message = "the lock has ended"}, fx);
  for (auto it = downgrades_.begin(); it != downgrades_.end();) {
    const auto waits = it++;
    if (waits->second.link != nullptr || waits->second.lease.get() != &lease) continue;
    const Refusal ended{.reason = RefusalReason::kNotHolder, .message = "the lock has ended"};
    fx.changed.emplace_back(std::move(waits->second.callback), ended);
    downgrades_.erase(waits);
  }
  // An acquire of the same lock and owner may have waited for its arrival.
  if (moving_ && lease.spec->wire.reentrant()) Wake(moves_at_ns_ = 0);
  lease.end_message = std::move(message);
  lease.cause.store(cause, std::memory_order_release);
  if (lease.stop.stop_possible()) fx.stopped.push_back(lease.stop);
  std::move(lease.also_stops.begin(), lease.also_stops.end(), std::back_inserter(fx.stopped));
  lease.also_stops.clear();
}

void LockTable::TimeOut(Lease& lease, int64_t now_ns, Effects& fx) {
  Refusal refusal;
  if (lease.cancelling) {
    refusal = {.reason = RefusalReason::kCancelled, .message = "cancelled by the caller"};
  } else if (lease.stranded_ns != kNever) {
    refusal = Unreachable(lease.stranded_ns, now_ns);
  } else {
    refusal = {.reason = RefusalReason::kWaitTimeout,
               .message = absl::StrCat("no answer within max_wait of ", Millis(lease.wait_until_ns - lease.asked_ns))};
  }
  refusal.waited = Duration(now_ns - lease.asked_ns);
  if (lease.link != nullptr && !lease.cancelling) lease.link->commands.Cancel(next_id_++, lease.id);
  RefuseGroup(lease, refusal, fx);
}

// Says goodbye, so that the broker ends the stream in good order. Waiting acquires go to the next stream.
void LockTable::Leave(Link& link) {
  link.leaving = true;
  link.heartbeat_due = false;
  link.commands.Goodbye();
  for (auto& [id, lease] : live_) {
    if (lease->link != &link) continue;
    lease->link = nullptr;
    // The goodbye gives back a grant that was not delivered yet; its acquire waits again on the next stream.
    if (lease->phase == Lease::Phase::kGranted) lease->phase = Lease::Phase::kWaiting;
  }
}

void LockTable::SweepLeases(int64_t now_ns, Effects& fx) {
  lease_deadline_ns_ = kNever;
  bool elsewhere = false;
  for (auto it = live_.begin(); it != live_.end();) {
    const LeasePtr lease = it++->second;
    if (lease->phase != Lease::Phase::kHeld) continue;
    Notice(lease, now_ns, fx);
    if (lease->phase != Lease::Phase::kHeld) continue;
    lease_deadline_ns_ = std::min(lease_deadline_ns_, lease->belief.deadline_ns());
    elsewhere = elsewhere || lease->link != &current();
  }
  moving_ = moving_ && elsewhere;
}

void LockTable::CheckHeartbeat(Link& link, int64_t now_ns) {
  if (!link.opened || link.leaving) return;
  if (now_ns >= link.heartbeat_at_ns) {
    link.heartbeat_due = true;
    link.heartbeat_at_ns = AddNs(now_ns, link.heartbeat_interval_ns);
  }
  Wake(link.heartbeat_at_ns);
}

void LockTable::AskForHeartbeat(Link& link, int64_t deadline_ns, int64_t now_ns) {
  if (link.leaving) return;
  // A recent heartbeat that is not answered yet is enough.
  const bool recent = link.session.unanswered() > 0 && now_ns - link.session.last_sent_ns() < link.validity_ns / 6;
  if (deadline_ns - now_ns < link.validity_ns / 2 && !recent) link.heartbeat_due = true;
  if (now_ns < deadline_ns) BeatHalfWay(link, deadline_ns, now_ns);
}

void LockTable::NoteSilence() {
  int64_t since_ns = kNever;
  for (const Link& link : links_) {
    if (link.streaming) since_ns = std::min(since_ns, link.session.unanswered_since_ns());
  }
  silent_since_ns_.store(since_ns, std::memory_order_relaxed);
}

Refusal LockTable::Unreachable(int64_t since_ns, int64_t now_ns) const {
  Refusal refusal = last_failure_.value_or(Refusal{});
  if (!CameFromBroker(refusal.reason)) {
    refusal.reason = RefusalReason::kUnreachable;
    refusal.cause = refusal.message.empty() ? "no answer" : refusal.message;
  }
  refusal.message = absl::StrCat("no broker at ", options_.address, " took it within ", Millis(now_ns - since_ns),
                                 refusal.message.empty() ? "" : ": ", refusal.message,
                                 "; check that distlockd runs there, or set DISTLOCK_SERVER");
  return refusal;
}

}  // namespace distlock::internal
