// SPDX-License-Identifier: Apache-2.0
#include "core/pending_releases.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {

namespace {

// There is something to give up.
bool IsOpen(const PendingRelease& release) { return release.waiting || release.holding; }

}  // namespace

PendingRelease& PendingReleases::RecordOf(const LockName& name, const OwnerId& owner, Duration lifetime) {
  PendingRelease* record = claims_.ReleaseOf(owner);
  if (record == nullptr) {
    auto fresh = std::make_unique<PendingRelease>(*this);
    fresh->serial = core_.NextSerial();
    fresh->name = name;
    fresh->owner = owner;
    record = &claims_.GiveBack(std::move(fresh));
  }
  record->until = std::max(record->until, core_.now + 2 * lifetime + core_.config.store_timeout);
  return *record;
}

PendingRelease& PendingReleases::StartRelease(const LockName& name, const OwnerId& owner, Duration block,
                                              Duration lifetime, uint64_t only_token) {
  PendingRelease& release = RecordOf(name, owner, lifetime);
  release.block = std::max(release.block, block);
  // The earlier of two grants of one owner has ended.
  const bool any = only_token == 0 || (release.holding && release.only_token == 0);
  release.only_token = any ? 0 : std::max(release.only_token, only_token);
  release.holding = true;
  return release;
}

PendingRelease& PendingReleases::StartWithdrawal(const LockName& name, const OwnerId& owner, Duration lifetime) {
  // A waiter's place lives as long as this broker's slot in the queue.
  PendingRelease& release = RecordOf(name, owner, std::max(lifetime, core_.config.queue_slot));
  release.waiting = true;
  return release;
}

PendingRelease& PendingReleases::Undo(const Acquire& spec, Instant may_run_until, bool order_lost) {
  PendingRelease& release = StartWithdrawal(spec.name, spec.owner, spec.ttl + spec.lock_delay);
  release.may_run_until = std::max(release.may_run_until, may_run_until);
  release.order_lost |= order_lost;
  return release;
}

void PendingReleases::Withdraw(const LockName& name, const OwnerId& owner, Duration lifetime) {
  Pursue(StartWithdrawal(name, owner, lifetime));
}

void PendingReleases::Release(const core::Release& in) {
  const Recipient recipient{in.session, in.request};
  PendingRelease& release =
      StartRelease(in.name, in.owner, Duration::zero(), std::max<Duration>(in.ttl, kAttemptMax), in.token);
  if (release.recipient.session != 0) {
    // Another caller waits for the same answer; this one learns that the release is under way.
    return core_.Tell(recipient, Released{.outcome = ReleaseOutcome::kAlreadyGone, .name = in.name, .owner = in.owner});
  }
  TellOutcome(release, recipient);
  Pursue(release);
}

void PendingReleases::TellOutcome(PendingRelease& release, const Recipient& recipient) {
  // The store has granted the owner the lock anew since then: the grant that another caller gave back has ended.
  if (release.recipient.session != 0) Answer(release, /*was_holder=*/true);
  release.recipient = recipient;
  release.answer_until = core_.now + core_.config.store_timeout;
}

void PendingReleases::Pursue(PendingRelease& release) {
  if (core_.now < release.not_before) release.retry_at = release.not_before;
  return release.op == 0 && core_.now >= release.not_before ? Send(release) : Arm(release);
}

void PendingReleases::PursueAfter(PendingRelease& release, Duration time) {
  release.not_before = core_.now + time;
  release.until += time;
  Pursue(release);
}

void PendingReleases::GiveBackNow(const OwnerId& owner) {
  if (!IsKeptForRetry(owner)) return;
  PendingRelease& release = *claims_.ReleaseOf(owner);
  release.not_before = {};
  Pursue(release);
}

void PendingReleases::OnGrantForNobody(const OwnerId& owner) {
  if (!core_.draining || !IsKeptForRetry(owner)) return;
  PendingRelease& release = *claims_.ReleaseOf(owner);
  // A grant that a lease had may be believed in.
  if (release.holding || release.not_before <= core_.now + kKeepForMove) return;
  release.not_before = core_.now + kKeepForMove;
  Pursue(release);
}

bool PendingReleases::IsKeptForRetry(const OwnerId& owner) const {
  const PendingRelease* const release = claims_.ReleaseOf(owner);
  return release != nullptr && core_.now < release->not_before;
}

void PendingReleases::OnStoreUp() {
  std::vector<PendingRelease*> unsent;
  claims_.ForEach(&Claim::release, [&](PendingRelease& release) {
    // One that waits until a late acquire must have run would be too early.
    const bool early = release.retry_at == release.may_run_until || core_.now < release.not_before || !IsOpen(release);
    if (release.op == 0 && !early) unsent.push_back(&release);
  });
  std::sort(unsent.begin(), unsent.end(),
            [](const PendingRelease* a, const PendingRelease* b) { return a->owner < b->owner; });
  for (PendingRelease* release : unsent) Send(*release);
}

void PendingReleases::SetOp(PendingRelease& release, OpId op) {
  if (release.op != 0) --sent_;
  if (op != 0) ++sent_;
  release.op = op;
}

void PendingReleases::Defer(PendingRelease& release) {
  const uint64_t behind = release.recipient.session == 0 ? uint64_t{1} << 63 : 0;
  release.deferred_as = behind | release.serial;
  deferred_.emplace(release.deferred_as, &release);
  release.retry_at = kNever;
  Arm(release);
}

void PendingReleases::SendDeferred() {
  while (core_.store_up && !deferred_.empty() && sent_ < kMaxReleasesSent) Send(*deferred_.begin()->second);
}

void PendingReleases::Send(PendingRelease& release) {
  if (!IsOpen(release)) return Arm(release);
  SetOp(release, 0);
  deferred_.erase(std::exchange(release.deferred_as, 0));
  if (core_.store_up && sent_ >= kMaxReleasesSent) return Defer(release);
  release.retry_at = core_.now + kRetryMax;
  if (core_.store_up) SendCommand(release);
  Arm(release);
}

void PendingReleases::SendCommand(PendingRelease& release) {
  SetOp(release, core_.SendOp({.sender = this, .owner = release.owner, .name = release.name}));
  release.retry_at = core_.now + kAttemptMax;
  ++release.attempts;
  const bool spares_grants = IsRepeatable(release.owner);
  // Withdrawing frees at once: a grant that is to be blocked, or that may be another's, is released first.
  const bool may_block = release.block > Duration::zero() || release.has_min_hold;
  const bool release_first = release.holding && (spares_grants || may_block);
  release.withdrawing = release.waiting && !release_first;
  if (release.withdrawing) {
    release.op_until = release.retry_at;
    core_.Command(StoreWithdraw{release.op, release.name, release.owner, spares_grants, release.op_until});
  } else {
    release.sent_token = release.only_token;
    core_.Command(StoreRelease{.op = release.op,
                               .name = release.name,
                               .owner = release.owner,
                               .token = release.only_token,
                               .block = release.block,
                               .ends_min_hold = release.ends_min_hold});
  }
}

void PendingReleases::Arm(PendingRelease& release) {
  Instant at = std::min(release.retry_at, release.until);
  if (release.recipient.session != 0) at = std::min(at, release.answer_until);
  core_.Arm(release, at);
}

// Its connection may have broken, and another one may be used by now.
void PendingReleases::NoteUnanswered(PendingRelease& release) {
  release.order_lost = true;
  if (release.withdrawing) release.withdraws_until = std::max(release.withdraws_until, release.op_until);
}

void PendingReleases::OnTimer(PendingRelease& release) {
  if (release.recipient.session != 0 && core_.now >= release.answer_until) {
    core_.Tell(
        release.recipient,
        Refused{.reason = RefusalReason::kStoreUnavailable,
                .cause = "the release has not been confirmed; it is repeated until it is, or the ttl has ended it",
                .retry_after = kRetryMax});
    release.recipient = {};
  }
  if (core_.now >= release.until) return Finish(release);
  if (core_.now >= release.retry_at) {
    if (!IsOpen(release)) return Finish(release);
    if (release.op != 0) NoteUnanswered(release);
    Send(release);
    return;
  }
  Arm(release);
}

void PendingReleases::OnReply(const Op& op, OpId id, StoreReply& reply) {
  PendingRelease* const found = claims_.ReleaseOf(op.owner);
  if (found == nullptr || found->op != id) return;
  PendingRelease& release = *found;
  SetOp(release, 0);
  const auto* done = std::get_if<GiveBackDone>(&reply.outcome);
  if (done == nullptr) return OnFailure(release, reply);
  // The end of a block is not announced.
  const Duration block = std::max(release.block, done->blocked_for);
  if (block > Duration::zero()) queues_.LookBy(release.name, core_.now + block + kExpirySlack);
  if (release.withdrawing) release.waiting = false;
  if (release.withdrawing ? !IsRepeatable(release.owner) : release.sent_token == release.only_token) {
    release.holding = false;
  }
  if (!release.holding) {
    // An earlier attempt of unknown outcome may be the one that freed a lease of ours.
    const bool ours_before = release.token != 0 && release.attempts > 1;
    Answer(release, done->was_holder || ours_before);
  }
  if (release.holding || release.waiting) {
    Send(release);
    return;
  }
  // The order of the release and an earlier acquire was lost with a connection: the acquire could still run.
  if (release.order_lost && release.may_run_until > op.sent) {
    release.waiting = true;
    release.retry_at = std::max(core_.now, release.may_run_until);
    release.until = std::max(release.until, release.may_run_until + kAttemptMax);
    Arm(release);
    return;
  }
  if (core_.now >= release.withdraws_until) return Finish(release);
  release.retry_at = release.withdraws_until;
  Arm(release);
}

void PendingReleases::OnFailure(PendingRelease& release, const StoreReply& reply) {
  const bool did_nothing =
      std::holds_alternative<StoreFailed>(reply.outcome) || std::holds_alternative<AcquireLate>(reply.outcome);
  if (!did_nothing) NoteUnanswered(release);
  if (IsForeignKey(reply)) {
    Answer(release, /*was_holder=*/false);
    return Finish(release);
  }
  release.retry_at = core_.now + (core_.store_up ? core_.BackOff(release.attempts) : kRetryMax);
  Arm(release);
}

void PendingReleases::Answer(PendingRelease& release, bool was_holder) {
  // The end of a lease of ours went on record when it ended.
  const bool asked = release.recipient.session != 0;
  if (release.token == 0 && (asked || was_holder)) {
    const FactKind kind = !asked ? FactKind::kGivenBack : was_holder ? FactKind::kReleased : FactKind::kAlreadyGone;
    core_.Note({.kind = kind, .name = release.name});
  }
  core_.Tell(release.recipient, Released{was_holder ? ReleaseOutcome::kReleased : ReleaseOutcome::kAlreadyGone,
                                         release.name, release.owner, release.token});
  release.recipient = {};
}

// Each release is pursued until the store has confirmed it, or must have forgotten the claim.
size_t PendingReleases::Check() const {
  size_t sent = 0;
  size_t deferred = 0;
  claims_.ForEach(&Claim::release, [&](const PendingRelease& release) {
    DISTLOCK_CHECK(release.at <= release.until);
    DISTLOCK_CHECK(IsOpen(release) || core_.now < release.withdraws_until);
    DISTLOCK_CHECK(release.recipient.session == 0 || release.at <= release.answer_until);
    DISTLOCK_CHECK(release.op == 0 || core_.IsInFlight(release.op, this));
    DISTLOCK_CHECK(release.deferred_as == 0 || deferred_.at(release.deferred_as) == &release);
    DISTLOCK_CHECK(release.op == 0 || release.deferred_as == 0);
    sent += release.op != 0;
    deferred += release.deferred_as != 0;
  });
  DISTLOCK_CHECK(sent == sent_ && sent_ <= kMaxReleasesSent && deferred == deferred_.size());
  DISTLOCK_CHECK(deferred == 0 || sent_ == kMaxReleasesSent || !core_.store_up);
  DISTLOCK_CHECK(gone_.empty());  // whoever waited for it was told
  return claims_.releases();
}

void PendingReleases::Finish(PendingRelease& release) {
  core_.timers.Cancel(release);
  SetOp(release, 0);
  deferred_.erase(release.deferred_as);
  const OwnerId owner = release.owner;
  claims_.EndRelease(owner);
  gone_.push_back(owner);
}

}  // namespace distlock::core
