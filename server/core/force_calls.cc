// SPDX-License-Identifier: Apache-2.0
#include "core/force_calls.h"

#include <algorithm>
#include <utility>

#include "core/claims.h"
#include "core/leases.h"
#include "core/limits.h"
#include "core/pending_releases.h"

namespace distlock::core {
namespace {

// A call looks for as long as a promise lasts. The pause between two looks grows no longer than after so many attempts,
// so that the caller does not wait much longer than the promise.
constexpr int kSlowestLook = 5;

}  // namespace

void ForceCalls::Handle(const ForceNotice& in) {
  if (Lease* const lease = to_.claims.LeaseOf(in.owner); lease != nullptr) {
    if (lease->token == in.token) to_.leases.Force(*lease, in.reason);
    return;
  }
  if (to_.claims.MayChange(in.owner)) return;  // the broker that asked will ask again
  to_.claims.ForgetLeft(in.owner);
  PendingRelease& release =
      to_.releases.Start(in.name, in.owner, /*waiting=*/false, Duration::zero(), kAttemptMax, in.token);
  release.ends_min_hold = true;
  to_.releases.Pursue(release);
}

void ForceCalls::Handle(ForceRelease& in) {
  ForceCall* const call = calls_.Begin(std::move(in), core_.config.validity + kForceGrace + core_.config.store_timeout);
  if (call != nullptr) Pursue(*call);
}

// Ends our own lease, or asks the store if nothing here stands against it.
void ForceCalls::Pursue(ForceCall& call) {
  call.op = 0;
  const ForceRelease& force = call.request;
  if (Lease* const lease = to_.claims.LeaseOf(force.owner); lease != nullptr && lease->token == force.token) {
    call.acted = true;
    to_.leases.Force(*lease, force.reason);
    const Lease* const ending = to_.claims.LeaseOf(force.owner);
    const Instant free_at = ending == nullptr ? core_.now : ending->free_at;
    return calls_.RetryAt(call, std::max(core_.now, free_at) + core_.BackOff(1));
  }
  ++call.attempts;
  if (!core_.store_up || to_.claims.MayChange(force.owner)) return calls_.RetryAt(call, core_.now + Pause(call));
  Op op;
  op.sender = this;
  op.name = force.name;
  const OpId id = calls_.BeginAttempt(call, std::move(op), kAttemptMax);
  core_.Command(StoreForce{id, force.name, force.owner, force.token, force.broker_id, force.reason});
}

Duration ForceCalls::Pause(const ForceCall& call) { return core_.BackOff(std::min(call.attempts, kSlowestLook)); }

void ForceCalls::OnTimer(ForceCall& call) {
  if (core_.now < call.until) {
    if (call.op != 0) call.acted = true;  // it may have run
    return Pursue(call);
  }
  const std::string why = !core_.store_up         ? core_.store_trouble
                          : !call.trouble.empty() ? call.trouble
                          : to_.claims.LeaseOf(call.request.owner) != nullptr
                              ? "its client may still believe in it"
                              : "its broker has been told and has not given it back yet";
  calls_.Answer(
      call, Refused{.reason = RefusalReason::kStoreUnavailable, .cause = why, .retry_after = kRetryMax, .holders = {}});
}

void ForceCalls::OnReply(const Op& op, OpId id, StoreReply& reply) {
  ForceCall* const found = calls_.Find(op.caller);
  if (found == nullptr) return;
  ForceCall& call = *found;
  const auto* done = std::get_if<ForceDone>(&reply.outcome);
  if (done != nullptr && done->result != ForceDone::Result::kTold) {
    const bool taken = call.acted || done->result == ForceDone::Result::kReleased;
    return calls_.Answer(call, Released{taken ? ReleaseOutcome::kReleased : ReleaseOutcome::kAlreadyGone,
                                        call.request.name, call.request.owner, call.request.token});
  }
  const auto* failed = std::get_if<StoreFailed>(&reply.outcome);
  if (failed == nullptr) call.acted = true;
  if (call.op != id) return;
  call.op = 0;
  call.trouble.clear();
  if (failed != nullptr && failed->kind == FailureKind::kForeignKey) {
    return calls_.Refuse(call, RefusalReason::kForeignKey, failed->cause);
  }
  calls_.NoteTrouble(call, reply);
  // Also while the store is down: what stands against it here can end meanwhile.
  calls_.RetryAt(call, core_.now + Pause(call));
}

}  // namespace distlock::core
