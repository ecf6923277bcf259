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
  if (Lease* const lease = claims_.LeaseOf(in.owner); lease != nullptr) {
    if (lease->token == in.token) leases_.Force(*lease, in.reason);
    return;
  }
  if (claims_.MayChange(in.owner)) return;  // the broker that asked will ask again
  claims_.ForgetLeft(in.owner);
  PendingRelease& release = releases_.StartRelease(in.name, in.owner, Duration::zero(), kAttemptMax, in.token);
  release.ends_min_hold = true;
  releases_.Pursue(release);
}

void ForceCalls::Handle(ForceRelease& in) {
  ForceCall* const call = Begin(std::move(in), core_.config.validity + kForceGrace + core_.config.store_timeout);
  if (call != nullptr) Send(*call);
}

// Ends our own lease, or asks the store if nothing here stands against it.
void ForceCalls::Send(ForceCall& call) {
  call.op = 0;
  const ForceRelease& force = call.request;
  if (Lease* const lease = claims_.LeaseOf(force.owner); lease != nullptr && lease->token == force.token) {
    call.acted = true;
    leases_.Force(*lease, force.reason);
    const Lease* const ending = claims_.LeaseOf(force.owner);
    const Instant free_at = ending == nullptr ? core_.now : ending->free_at;
    return RetryAt(call, std::max(core_.now, free_at) + core_.BackOff(1));
  }
  if (!core_.store_up || claims_.MayChange(force.owner)) {
    ++call.attempts;
    return RetryAt(call, core_.now + Pause(call));
  }
  const OpId id = BeginAttempt(call, kAttemptMax);
  core_.Command(StoreForce{id, force.name, force.owner, force.token, force.broker_id, force.reason});
}

Duration ForceCalls::Pause(const ForceCall& call) { return core_.BackOff(std::min(call.attempts, kSlowestLook)); }

void ForceCalls::OnTimer(ForceCall& call) {
  if (core_.now < call.until) {
    if (call.op != 0) call.acted = true;  // it may have run
    return Send(call);
  }
  const char* const holder = claims_.LeaseOf(call.request.owner) != nullptr
                                 ? "its client may still believe in it"
                                 : "its broker has been told and has not given it back yet";
  Answer(call, Refused{.reason = RefusalReason::kStoreUnavailable,
                       .cause = core_.WhyNoAnswer(call.trouble, holder),
                       .retry_after = kRetryMax});
}

void ForceCalls::OnReply(const Op& op, OpId id, StoreReply& reply) {
  ForceCall* const found = Find(op.recipient);
  if (found == nullptr) return;
  ForceCall& call = *found;
  const auto* done = std::get_if<ForceDone>(&reply.outcome);
  if (done != nullptr && done->result != ForceDone::Result::kTold) {
    const bool taken = call.acted || done->result == ForceDone::Result::kReleased;
    return Answer(call, Released{taken ? ReleaseOutcome::kReleased : ReleaseOutcome::kAlreadyGone, call.request.name,
                                 call.request.owner, call.request.token});
  }
  if (!std::holds_alternative<StoreFailed>(reply.outcome)) call.acted = true;
  if (call.op != id || RefuseForeignKey(call, reply)) return;
  call.op = 0;
  call.trouble.clear();
  NoteTrouble(call, reply);
  // Also while the store is down: what stands against it here can end meanwhile.
  RetryAt(call, core_.now + Pause(call));
}

}  // namespace distlock::core
