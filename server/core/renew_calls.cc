// SPDX-License-Identifier: Apache-2.0
#include "core/renew_calls.h"

#include <algorithm>
#include <utility>

#include "core/limits.h"

namespace distlock::core {
namespace {

// How long the store keeps the key from the renewal on, lock_delay not counted. What is left of max_hold is the store's
// own reckoning, so no estimate of ours about its clock can end a lease before what its holder was promised.
Duration LastsFor(const Renew& renew, const RenewDoneBatch& done) {
  if (done.hold_left.empty()) return renew.ttl;
  return std::min<Duration>(renew.ttl, std::chrono::floor<std::chrono::milliseconds>(done.hold_left.front()));
}

}  // namespace

void RenewCalls::Handle(Renew& in) {
  if (HasAnyOf(in.session)) return;
  RenewCall* const call = Begin(std::move(in), core_.config.store_timeout);
  call->arrived = core_.now;
  Send(*call);
}

void RenewCalls::Send(RenewCall& call) {
  if (!core_.store_up) return AwaitStore(call);
  const Renew& renew = call.request;
  StoreRenew command;
  command.op = BeginAttempt(call, CoreContext::AttemptTimeout(renew.ttl));
  command.items.push_back(RenewItem{.name = renew.name,
                                    .owner = renew.owner,
                                    .token = renew.token,
                                    .ttl = renew.ttl,
                                    .ours = false,
                                    .hold_until = renew.hold_until});
  core_.Command(std::move(command));
}

void RenewCalls::OnReply(const Op& op, OpId id, StoreReply& reply) {
  RenewCall* const found = Find(op.recipient);
  if (found == nullptr) return;
  RenewCall& call = *found;
  const Renew& renew = call.request;
  const auto* done = std::get_if<RenewDoneBatch>(&reply.outcome);
  if (done == nullptr || done->results.size() != 1 || done->results[0] == RenewResult::kUnanswered) {
    if (call.op != id) return;  // and no RefuseForeignKey: a foreign key is kAnothers here
    if (done != nullptr) call.trouble = done->trouble;
    return RetryAfter(call, reply, /*attempts=*/3, /*least=*/kRetryMin);
  }
  const Duration lasts = LastsFor(renew, *done);
  if (done->results[0] != RenewResult::kRenewed) {
    return Refuse(call, RefusalReason::kNotHolder,
                  lasts <= Duration::zero()                 ? "it was held for max_hold"
                  : done->results[0] == RenewResult::kGone  ? "the store no longer has it"
                  : done->results[0] == RenewResult::kMoved ? "a session has taken it over"
                                                            : "the store has another holder");
  }
  const Instant deadline = core_.DeadlineOf(op.sent, lasts);
  if (core_.now >= deadline && lasts < renew.ttl) {
    return Refuse(call, RefusalReason::kNotHolder, "it was held for max_hold");
  }
  if (core_.now >= deadline) return Send(call);
  core_.Note({.kind = FactKind::kRenewed, .name = renew.name});
  claims_.LeaveToTtl(renew.owner, core_.now + lasts);
  Answer(call, RenewDone{core_.Shortened(deadline - call.arrived), lasts});
}

}  // namespace distlock::core
