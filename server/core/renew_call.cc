// SPDX-License-Identifier: Apache-2.0
//
// Broker: Renew calls for detached leases, of which nothing is remembered between calls.
#include <algorithm>

#include "core/broker.h"
#include "core/limits.h"

namespace distlock::core {
namespace {

// For how long the script that ran at `time` keeps the key, lock_delay apart. By the store's own clock, so that no guess of
// ours about it can end a lease before what its holder was promised.
Duration KeptBy(const Renew& renew, StoreTime time) {
  if (renew.hold_until.us == 0) return renew.ttl;
  const auto left = std::chrono::microseconds(renew.hold_until.us - time.us);
  return std::min<Duration>(renew.ttl, std::chrono::floor<std::chrono::milliseconds>(left));
}

}  // namespace

void Broker::Handle(Renew& in) {
  if (renew_calls_.contains(in.session)) return;
  auto& call = renew_calls_[in.session];
  call = std::make_unique<RenewCall>();
  call->serial = next_serial_++;
  call->call = std::move(in);
  call->arrived = now_;
  call->until = now_ + config_.store_timeout;
  SendRenewCall(*call);
}

void Broker::SendRenewCall(RenewCall& call) {
  call.op = 0;
  call.retry_at = kNever;
  if (store_up_) {
    Op op;
    op.verb = Op::Verb::kRenewCall;
    op.caller = {call.call.session, call.call.request};
    call.op = SendOp(std::move(op));
    call.retry_at = now_ + AttemptTimeout(call.call.ttl);
    StoreRenew renew;
    renew.op = call.op;
    renew.items.push_back(
        RenewItem{call.call.name, call.call.owner, call.call.token, call.call.ttl, call.call.hold_until});
    Command(std::move(renew));
  }
  Arm(call, std::min(call.until, call.retry_at));
}

void Broker::OnRenewCallTimer(RenewCall& call) {
  if (now_ >= call.until) {
    return RefuseRenewCall(call, RefusalReason::kStoreUnavailable,
                           !store_up_             ? store_trouble_
                           : call.trouble.empty() ? "no answer"
                                                  : call.trouble);
  }
  if (call.op != 0) NoteSilence("a renewal unanswered");
  SendRenewCall(call);
}

void Broker::OnRenewCallReply(const Op& op, OpId id, StoreReply& reply) {
  const auto found = renew_calls_.find(op.caller.session);
  if (found == renew_calls_.end()) return;
  RenewCall& call = *found->second;
  const auto* done = std::get_if<RenewDoneBatch>(&reply.outcome);
  if (done == nullptr || done->results.size() != 1) {
    if (call.op != id) return;
    if (const auto* failed = std::get_if<StoreFailed>(&reply.outcome)) call.trouble = failed->cause;
    if (const auto* unknown = std::get_if<StoreUnknown>(&reply.outcome)) call.trouble = unknown->cause;
    call.op = 0;
    call.retry_at = store_up_ ? now_ + kRetryMin + BackOff(3) : kNever;
    return Arm(call, std::min(call.until, call.retry_at));
  }
  const Duration kept = KeptBy(call.call, reply.time);
  if (done->results[0] != RenewResult::kRenewed) {
    return RefuseRenewCall(call, RefusalReason::kNotHolder,
                           kept <= Duration::zero()                 ? "it was held for max_hold"
                           : done->results[0] == RenewResult::kGone ? "the store no longer has it"
                                                                    : "the store has another holder");
  }
  const Instant deadline = op.sent + kept - Margin(kept);
  if (now_ >= deadline && kept < call.call.ttl) {
    return RefuseRenewCall(call, RefusalReason::kNotHolder, "it was held for max_hold");
  }
  if (now_ >= deadline) return SendRenewCall(call);
  Note({.kind = FactKind::kRenewed, .name = call.call.name, .detail = {}});
  RememberGrant(call.call.owner, now_ + kept);
  if (const auto queue = queues_.find(call.call.name); kept < call.call.ttl && queue != queues_.end()) {
    // Its max_hold ends it sooner than was last seen.
    Arm(*queue->second, std::min(queue->second->at, now_ + kept + kExpirySlack));
  }
  Tell(op.caller, RenewDone{deadline - call.arrived, kept});
  timers_.Cancel(call);
  renew_calls_.erase(found);
}

void Broker::RefuseRenewCall(RenewCall& call, RefusalReason reason, std::string cause) {
  Note({.kind = FactKind::kRefused, .refusal = reason, .name = call.call.name, .detail = {}});
  Tell({call.call.session, call.call.request}, Refused{.reason = reason, .cause = std::move(cause), .holders = {}});
  timers_.Cancel(call);
  const SessionId session = call.call.session;
  renew_calls_.erase(session);
}

}  // namespace distlock::core
