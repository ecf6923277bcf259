// SPDX-License-Identifier: Apache-2.0
//
// Broker: locks that an administrator takes from their holders. A lease of this broker ends as one whose stream broke: freed when
// its client has ceased to believe. Of others their broker is told by the store; who asks looks again until they are gone.
#include <algorithm>

#include "core/broker.h"
#include "core/limits.h"

namespace distlock::core {
namespace {

// A look goes on for as long as a promise lasts: not seldom enough to keep the caller waiting much longer.
constexpr int kSlowestLook = 5;

}  // namespace

void Broker::ForceLease(Lease& lease, const std::string& reason) {
  if (lease.bundle != nullptr) return LosePart(lease, "an administrator took it: " + reason);
  lease.lock_delay = Duration::zero();
  if (lease.ending) return;  // it is freed in its time
  NoteEnd(lease, FactKind::kLost, LostReason::kForced, reason);
  TellHolder(lease, Lost{lease.name, lease.owner, lease.token, LostReason::kForced, reason});
  // Its client lives, and believes until it hears of this.
  lease.on_disconnect = OnDisconnect::kSafe;
  EndLease(lease);
}

// Freed now, it could still be granted here by an answer that is on its way, or while its client believes.
bool Broker::MustWaitToForce(const OwnerId& owner) const {
  if (waiters_.contains(owner) || give_backs_.contains(owner)) return true;
  for (const auto& [serial, bundle] : bundles_) {
    for (const Bundle::Part& part : bundle->parts) {
      if (part.spec.owner == owner) return true;
    }
  }
  const auto past = recent_grants_.find(owner);
  return past != recent_grants_.end() && past->second.promised_until > now_;
}

void Broker::Handle(const ForceNotice& in) {
  if (const auto lease = leases_.find(in.owner); lease != leases_.end()) {
    if (lease->second->token == in.token) ForceLease(*lease->second, in.reason);
    return;
  }
  if (MustWaitToForce(in.owner)) return;  // whoever asked will ask again
  ForgetGrant(in.owner);
  PursueGiveBack(StartGiveBack(in.name, in.owner, /*waiting=*/false, Duration::zero(), kAttemptMax, in.token));
}

void Broker::Handle(ForceRelease& in) {
  auto& call = force_calls_[{in.session, in.request}];
  if (call != nullptr) return;
  call = std::make_unique<ForceCall>();
  call->serial = next_serial_++;
  call->call = std::move(in);
  call->until = now_ + config_.validity + kForceGrace + config_.store_timeout;
  PursueForce(*call);
}

void Broker::PursueForce(ForceCall& call) {
  call.op = 0;
  const OwnerId owner = call.call.owner;
  auto lease = leases_.find(owner);
  if (lease != leases_.end() && lease->second->token == call.call.token) {
    call.acted = true;
    ForceLease(*lease->second, call.call.reason);
    lease = leases_.find(owner);
    return ArmForce(call, (lease == leases_.end() ? now_ : std::max(now_, lease->second->free_at)) + BackOff(1));
  }
  ++call.attempts;
  if (!store_up_ || MustWaitToForce(owner))
    return ArmForce(call, now_ + BackOff(std::min(call.attempts, kSlowestLook)));
  Op op;
  op.verb = Op::Verb::kForce;
  op.name = call.call.name;
  op.caller = {call.call.session, call.call.request};
  call.op = SendOp(std::move(op));
  Command(StoreForce{call.op, call.call.name, owner, call.call.token, call.call.broker_id, call.call.reason});
  ArmForce(call, now_ + kAttemptMax);
}

void Broker::ArmForce(ForceCall& call, Instant at) {
  call.retry_at = at;
  Arm(call, std::min(call.until, at));
}

void Broker::OnForceTimer(ForceCall& call) {
  if (now_ < call.until) {
    if (call.op != 0) {
      call.acted = true;  // it may have run
      NoteSilence("a forced release unanswered");
    }
    return PursueForce(call);
  }
  const std::string why = !store_up_              ? store_trouble_
                          : !call.trouble.empty() ? call.trouble
                          : leases_.contains(call.call.owner)
                              ? "its client may still believe in it"
                              : "its broker has been told and has not given it back yet";
  AnswerForce(
      call, Refused{.reason = RefusalReason::kStoreUnavailable, .cause = why, .retry_after = kRetryMax, .holders = {}});
}

void Broker::OnForceReply(const Op& op, OpId id, StoreReply& reply) {
  const auto* done = std::get_if<ForceDone>(&reply.outcome);
  if (done != nullptr) TakeNext(op, done->next, done->look);
  const auto found = force_calls_.find({op.caller.session, op.caller.request});
  if (found == force_calls_.end()) return;
  ForceCall& call = *found->second;
  if (done != nullptr && done->result != ForceDone::Result::kTold) {
    const bool taken = call.acted || done->result == ForceDone::Result::kReleased;
    return AnswerForce(call, Released{taken ? ReleaseOutcome::kReleased : ReleaseOutcome::kAlreadyGone, call.call.name,
                                      call.call.owner, call.call.token});
  }
  const auto* failed = std::get_if<StoreFailed>(&reply.outcome);
  if (failed == nullptr) call.acted = true;
  if (call.op != id) return;
  call.op = 0;
  call.trouble.clear();
  if (failed != nullptr && failed->kind == FailureKind::kForeignKey) {
    return AnswerForce(call, Refused{.reason = RefusalReason::kForeignKey, .cause = failed->cause, .holders = {}});
  }
  if (failed != nullptr) call.trouble = failed->cause;
  if (const auto* unknown = std::get_if<StoreUnknown>(&reply.outcome)) call.trouble = unknown->cause;
  ArmForce(call, now_ + BackOff(std::min(call.attempts, kSlowestLook)));
}

void Broker::AnswerForce(ForceCall& call, Event answer) {
  const Listener listener{call.call.session, call.call.request};
  if (const auto* refused = std::get_if<Refused>(&answer)) {
    Note({.kind = FactKind::kRefused, .refusal = refused->reason, .name = call.call.name, .detail = {}});
  }
  Tell(listener, std::move(answer));
  timers_.Cancel(call);
  force_calls_.erase({listener.session, listener.request});
}

}  // namespace distlock::core
