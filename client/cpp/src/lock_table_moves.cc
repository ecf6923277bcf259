// SPDX-License-Identifier: Apache-2.0
//
// The lock table: leases that change their session, because their broker drains, or because their stream broke and the
// program wants them to be resumed. session.md, "Moving a lease", has the rules.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <random>
#include <string_view>
#include <tuple>

#include "lock_table.h"

namespace distlock::internal {
namespace {

constexpr int64_t kRetryPause = 100'000'000;
constexpr int64_t kLongestRetryPause = 500'000'000;

// Two holds of one reentrant lease.
bool SameLease(const Lease& a, const Lease& b) {
  const v1::LockSpec& x = a.spec->wire;
  const v1::LockSpec& y = b.spec->wire;
  return &a == &b || (a.token == b.token && x.reentrant() && y.reentrant() && x.key() == y.key() &&
                      x.namespace_() == y.namespace_());
}

// Whether the broker cannot tell the outcome, or may do better next time.
bool MayBeRepeated(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kNotSupported:
    case RefusalReason::kInvalidArgument:
    case RefusalReason::kForeignKey:
    case RefusalReason::kUnauthenticated:
    case RefusalReason::kPermissionDenied:
      return false;
    default:
      return true;
  }
}

}  // namespace

std::string RandomId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&id, absl::Hex(random(), absl::kZeroPad8));
  return id;
}

void LockTable::OnDraining(Link& link, Duration time_left, int64_t now_ns, Effects& fx) {
  link.draining = true;
  link.drained_at_ns = AddNs(now_ns, time_left.count());
  if (options_.brokers == 1 || !link.adopts) fx.draining = time_left;
  MoveOn(now_ns);
}

// Leaves the present broker, if it drains: the other link becomes the present one. While that still has a stream of its
// own, of a broker that drains as well, this waits for its end.
void LockTable::MoveOn(int64_t now_ns) {
  Link& from = current();
  if (options_.brokers == 1 || closed_ || !from.streaming || !from.draining || at(1 - present_).streaming) return;
  present_ = 1 - present_;
  moving_ = true;
  // What waits there asks the next broker, which takes over its place in the queue. What was granted meanwhile is given
  // back when that broker has the request, or with the goodbye: then it comes to the place that it has there.
  for (auto& [id, lease] : live_) {
    if (lease->link != &from || lease->phase == Lease::Phase::kHeld) continue;
    if (lease->cancelling || lease->abandoned || !options_.reissue_waits) continue;
    lease->crossed = lease->phase == Lease::Phase::kGranted;
    lease->phase = Lease::Phase::kWaiting;
    lease->former = &from;
    lease->link = nullptr;
    if (lease->stranded_ns == kNever) lease->stranded_ns = now_ns;
    Reschedule(*lease);
  }
}

// A former session has granted what it was asked for before the request went to another one: never believed in.
void LockTable::OnGrantByFormer(Link& link, int64_t id, Lease* lease) {
  if (lease != nullptr && lease->former == &link) {
    lease->crossed = true;
  } else if (!link.leaving) {
    link.commands.Release(next_id_++, id);
  }
}

// The present broker has the request, and so its place: the former session matters no more.
void LockTable::HasArrived(Lease& lease) {
  for (const LeasePtr& part : GroupOf(lease)) {
    if (part->former == nullptr || (part->crossed && part.get() != &lease)) continue;
    if (part->crossed && !part->former->leaving) part->former->commands.Release(next_id_++, part->id);
    part->former = nullptr;
    part->crossed = false;
  }
}

// Asks the present session to adopt all that it does not hold.
void LockTable::SendMoves(int64_t now_ns, Effects& fx) {
  moves_at_ns_ = kNever;
  moving_ = false;
  Link& link = current();
  const bool ready = link.opened && !link.leaving && !link.draining;
  std::map<std::tuple<int64_t, std::string_view, std::string_view>, std::shared_ptr<Move>> reentrant;
  std::vector<std::shared_ptr<Move>> moves;
  for (auto& [id, lease] : live_) {
    const bool here = lease->link == &link;
    const bool changes = lease->proclamation != nullptr && lease->proclamation->asked != nullptr;
    if (lease->phase != Lease::Phase::kHeld || (here && !changes)) continue;
    moving_ = moving_ || !here;
    if (!ready || !MayMove(*lease)) continue;
    if (!link.adopts) {
      Stay(*lease, now_ns, fx);
      continue;
    }
    const v1::LockSpec& lock = lease->spec->wire;
    std::shared_ptr<Move> single;
    auto& move = lock.reentrant() ? reentrant[{lease->token, lock.namespace_(), lock.key()}] : single;
    if (move == nullptr) {
      if (lease->move == nullptr) {
        lease->move = std::make_shared<Move>();
        lease->move->request_id = options_.random_id();
      }
      move = lease->move;
      moves.push_back(move);
    }
    lease->move = move;
    move->holds.push_back(lease);
  }
  for (const std::shared_ptr<Move>& move : moves) SendMove(move);
  if (ready && link.adopts) GiveBackLeftovers();
  SendHeldBack(now_ns, fx);
}

bool LockTable::MayMove(const Lease& lease) const {
  if (lease.stays || (lease.move != nullptr && lease.move->through != nullptr)) return false;
  if (lease.link != nullptr && (!lease.link->adopts || lease.link->leaving)) return false;
  // The adoption must name the mode, which is known when the downgrade is answered.
  return std::none_of(downgrades_.begin(), downgrades_.end(), [&lease](const auto& entry) {
    return entry.second.link != nullptr && SameLease(*entry.second.lease, lease);
  });
}

void LockTable::SendMove(const std::shared_ptr<Move>& move) {
  move->through = &current();
  move->id = next_id_;
  next_id_ += static_cast<int64_t>(move->holds.size());
  moves_.emplace(move->id, move);
  const Lease& lease = *move->holds.front();
  move->spec = NextSpec(lease);
  move->through->commands.Adopt(move->id, {.lease_id = lease.names.load()->lease_id,
                                           .lock = move->spec->wire,
                                           .downgraded = lease.downgraded,
                                           .request_id = move->request_id,
                                           .holds = move->holds.size()});
}

std::shared_ptr<Move> LockTable::FindMove(const Link& link, int64_t id) const {
  auto found = moves_.upper_bound(id);
  if (found == moves_.begin()) return nullptr;
  --found;
  const std::shared_ptr<Move>& move = found->second;
  return move->through == &link && id - move->id < static_cast<int64_t>(move->holds.size()) ? move : nullptr;
}

// It is answered, or will not be. Its leases keep it while it may have to be repeated.
void LockTable::EndMove(Move& move) {
  moves_.erase(move.id);
  move.through = nullptr;
  move.holds.clear();
}

bool LockTable::OnAdopted(Link& link, int64_t id, const v1::Grant& grant, int64_t now_ns, Effects& fx) {
  const std::shared_ptr<Move> move = FindMove(link, id);
  if (move == nullptr) return false;
  LeasePtr& hold = move->holds[static_cast<size_t>(id - move->id)];
  // Too late when the former promise is over: that loses the lease, and releases it here as well.
  if (hold != nullptr) Notice(LeasePtr(hold), now_ns, fx);
  const LeasePtr lease = std::exchange(hold, nullptr);
  if (lease != nullptr && lease->phase == Lease::Phase::kHeld) {
    Arrive(lease, link, id, grant, now_ns, fx);
    OnShown(*lease, move->spec, now_ns, fx);
  }
  const auto settled = [](const LeasePtr& one) { return one == nullptr; };
  if (std::all_of(move->holds.begin(), move->holds.end(), settled)) EndMove(*move);
  return true;
}

// From now on only this session's promises count, also when they are shorter.
void LockTable::Arrive(const LeasePtr& lease, Link& link, int64_t id, const v1::Grant& grant, int64_t now_ns,
                       Effects& fx) {
  auto entry = live_.extract(lease->id);
  entry.key() = lease->id = id;
  live_.insert(std::move(entry));
  lease->link = &link;
  lease->move = nullptr;
  lease->limited_by_seq = 0;
  lease->moved.push_front({grant.lease_id(), grant.holder_id()});
  lease->names.store(&lease->moved.front(), std::memory_order_release);
  if (grant.fencing_token() != lease->token) {
    return Lose(lease, EndCause::kTaken, "it was adopted under another fencing token", fx);
  }
  const int64_t deadline_ns = link.session.DeadlineOf(grant.echo_seq(), ToNs(grant.valid_for()));
  lease->belief.Set(deadline_ns, now_ns);
  lease->deadline_ns.store(deadline_ns, std::memory_order_release);
  lease->at_risk.store(false, std::memory_order_relaxed);
  Notice(lease, now_ns, fx);
  if (lease->phase != Lease::Phase::kHeld) return;
  lease_deadline_ns_ = std::min(lease_deadline_ns_, deadline_ns);
  Wake(lease_deadline_ns_);
  AskForHeartbeat(link, deadline_ns, now_ns);
  SendDowngrades(*lease);
  if (lease->spec->wire.reentrant()) SendHeldBack(now_ns, fx);
  if (&link != &current()) Wake(moves_at_ns_ = now_ns);  // that broker drains already
}

bool LockTable::OnNotAdopted(Link& link, int64_t id, const v1::Refusal& wire, int64_t now_ns, Effects& fx) {
  const std::shared_ptr<Move> move = FindMove(link, id);
  if (move == nullptr) return false;
  const std::vector<LeasePtr> holds = move->holds;  // the refusal is that of all
  EndMove(*move);
  const Refusal refusal = ToRefusal(wire);
  for (const LeasePtr& hold : holds) {
    if (hold == nullptr || hold->phase != Lease::Phase::kHeld) continue;
    if (refusal.reason == RefusalReason::kNotHolder) {
      Lose(hold, EndCause::kTaken, absl::StrCat("it could not be taken over: ", refusal.message), fx);
    } else if (MayBeRepeated(refusal.reason)) {
      const int64_t pause_ns = refusal.retry_after ? refusal.retry_after->count() : kRetryPause;
      moves_at_ns_ = std::min(moves_at_ns_, now_ns + std::clamp(pause_ns, kRetryPause, kLongestRetryPause));
    } else if (refusal.reason == RefusalReason::kNotSupported && hold->mode_unsure) {
      hold->mode_unsure = false;
      hold->downgraded = !hold->downgraded;
      moves_at_ns_ = now_ns;
    } else if (!OnNotShown(*hold, refusal, fx)) {
      Stay(*hold, now_ns, fx);
    }
  }
  Wake(moves_at_ns_);
  if (refusal.reason == RefusalReason::kDraining) {
    link.draining = true;
    MoveOn(now_ns);
  }
  return true;
}

// No broker can adopt it: it stays where it is, and is lost when that broker goes.
void LockTable::Stay(Lease& lease, int64_t now_ns, Effects& fx) {
  lease.stays = true;
  SendDowngrades(lease);
  if (lease.link == nullptr || lease.link->drained_at_ns == kNever) return;
  fx.draining = Duration(std::max<int64_t>(std::exchange(lease.link->drained_at_ns, kNever) - now_ns, 0));
}

// Whether a lease may be believed in after the end of its stream, until its last promise ends. The broker keeps the
// lock for as long, unless it was told to free it at once.
bool LockTable::Survives(const Lease& lease, int64_t now_ns) const {
  if (closed_ || lease.stays || !lease.link->adopts || !lease.belief.Believes(now_ns)) return false;
  if (lease.spec->wire.on_disconnect() == v1::ON_DISCONNECT_RELEASE) return false;
  return lease.spec->wire.resume() || lease.move != nullptr || lease.link != &links_[static_cast<size_t>(present_)];
}

void LockTable::Orphan(Lease& lease, const std::string& why) {
  lease.link = nullptr;
  lease.risk = why;
  lease.at_risk.store(true, std::memory_order_relaxed);
  moving_ = true;
  Wake(moves_at_ns_ = 0);
}

// Releases the lease at every session that may have it. Does not end it.
void LockTable::GiveBack(const LeasePtr& lease, bool lapsed, ReleaseCallback callback, Effects& fx) {
  const auto release = [&](Link& link, int64_t acquire) {
    const int64_t id = next_id_++;
    link.commands.Release(id, acquire, lapsed);
    return id;
  };
  const int64_t here = lease->link != nullptr ? release(*lease->link, lease->id) : 0;
  int64_t there = 0;
  Move* const move = lease->move.get();
  if (move != nullptr && move->through != nullptr) {
    const auto hold = std::find(move->holds.begin(), move->holds.end(), lease);
    there = release(*move->through, move->id + (hold - move->holds.begin()));
    *hold = nullptr;
  }
  if (callback == nullptr) return;
  if (here != 0) {
    releases_.emplace(here, PendingRelease{std::move(callback), lease->link, there, {}});
    if (there != 0) releases_.emplace(there, PendingRelease{nullptr, move->through, here, {}});
  } else if (there != 0) {
    releases_.emplace(there, PendingRelease{std::move(callback), move->through, 0, {}});
  } else {
    fx.released.emplace_back(std::move(callback), ReleaseOutcome::kUnknown);
  }
}

// Ends a held lease that is not released by the program.
void LockTable::Lose(const LeasePtr& lease, EndCause cause, const std::string& message, Effects& fx) {
  GiveBack(lease, /*lapsed=*/true, nullptr, fx);
  End(*lease, cause, message, fx);
  live_.erase(lease->id);
}

// To be called before a lease ends: when no session can release it, the next one adopts it and releases it then.
void LockTable::RememberLeftover(const LeasePtr& lease, bool lapsed) {
  if (lease->link != nullptr || (lease->move != nullptr && lease->move->through != nullptr)) return;
  if (HoldsOf(lease).size() > 1) return;  // the others move it
  leftovers_.push_back({lease, lease->move != nullptr ? lease->move->request_id : options_.random_id(), lapsed});
}

void LockTable::GiveBackLeftovers() {
  CommandQueue& commands = current().commands;
  for (const auto& [lease, request_id, lapsed] : leftovers_) {
    const int64_t id = next_id_++;
    commands.Adopt(id, {.lease_id = lease->names.load()->lease_id,
                        .lock = lease->spec->wire,
                        .downgraded = lease->downgraded,
                        .request_id = request_id,
                        .holds = 1});
    commands.Release(next_id_++, id, lapsed);
  }
  leftovers_.clear();
}

// Says goodbye to a former broker that has nothing of this client any more.
void LockTable::LeaveWhenEmpty(Link& link) {
  if (!link.streaming || link.leaving) return;
  const auto here = [&link](const auto& entry) { return entry.second.link == &link; };
  for (const auto& [id, lease] : live_) {
    if (lease->link == &link || lease->former == &link) return;
  }
  for (const auto& [id, move] : moves_) {
    if (move->through == &link) return;
  }
  if (std::any_of(releases_.begin(), releases_.end(), here)) return;
  if (std::any_of(downgrades_.begin(), downgrades_.end(), here)) return;
  Leave(link);
}

std::vector<LeasePtr> LockTable::HoldsOf(const LeasePtr& lease) const {
  if (!lease->spec->wire.reentrant()) return {lease};
  std::vector<LeasePtr> holds;
  for (const auto& [id, other] : live_) {
    if (other->phase == Lease::Phase::kHeld && SameLease(*lease, *other)) holds.push_back(other);
  }
  return holds;
}

// Whether the same owner holds the lock through another session: it would wait for itself there.
bool LockTable::HeldElsewhere(const Lease& lease) const {
  const v1::LockSpec& lock = lease.spec->wire;
  if (!moving_ || !lock.reentrant()) return false;
  const Link* const present = &links_[static_cast<size_t>(present_)];
  return std::any_of(live_.begin(), live_.end(), [&](const auto& entry) {
    const v1::LockSpec& held = entry.second->spec->wire;
    return entry.second->phase == Lease::Phase::kHeld && entry.second->link != present && held.reentrant() &&
           held.key() == lock.key() && held.owner() == lock.owner() && held.namespace_() == lock.namespace_();
  });
}

// Sends what waited for the lease's arrival.
void LockTable::SendDowngrades(const Lease& lease) {
  if (lease.link == nullptr || (lease.move != nullptr && !lease.stays)) return;
  for (auto& [id, downgrade] : downgrades_) {
    if (downgrade.lease.get() != &lease || downgrade.link != nullptr) continue;
    downgrade.link = lease.link;
    lease.link->commands.Downgrade(id, lease.id);
  }
}

}  // namespace distlock::internal
