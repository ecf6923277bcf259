// SPDX-License-Identifier: Apache-2.0
//
// Broker: Convert, which makes an EXCLUSIVE lease SHARED. The store knows in which mode a lease is held; here it is asked, and
// asked again as long as the outcome is not known.
#include <algorithm>

#include "core/broker.h"
#include "core/limits.h"

namespace distlock::core {

// What is on its way back to the store is its caller's no more.
bool Broker::IsGivenBack(const OwnerId& owner, uint64_t token) const {
  if (const auto lease = leases_.find(owner); lease != leases_.end() && lease->second->ending) {
    return token == 0 || token == lease->second->token;
  }
  const auto found = give_backs_.find(owner);
  if (found == give_backs_.end() || !found->second->holding) return false;
  return token == 0 || found->second->only_token == 0 || found->second->only_token == token;
}

void Broker::Handle(Convert& in) {
  if (in.acquire != 0) {
    const auto session = sessions_.find(in.session);
    if (session == sessions_.end()) return;
    const auto lease = session->second->leases.find(in.acquire);
    if (lease == session->second->leases.end()) {
      return RefuseConvert(in, RefusalReason::kNotHolder, "this session holds nothing under that id");
    }
    in.name = lease->second->name;
    in.owner = lease->second->owner;
    in.token = lease->second->token;
  }
  if (IsGivenBack(in.owner, in.token)) {
    return RefuseConvert(in, RefusalReason::kNotHolder, "it is being given back");
  }
  if (const auto lease = leases_.find(in.owner); lease != leases_.end() && lease->second->reentry != nullptr) {
    Reentry& reentry = *lease->second->reentry;
    if (!reentry.others.empty()) {
      return RefuseConvert(in, RefusalReason::kNotSupported,
                           "it was taken " + std::to_string(reentry.others.size() + 1) +
                               " times, and all who have it count on its mode; release it but once");
    }
    // From now on, whenever the store does it. Permits it refuses, and they are held as before.
    if (reentry.want.mode == Mode::kExclusive) reentry.want.mode = Mode::kShared;
  }
  auto& call = convert_calls_[{in.session, in.request}];
  if (call != nullptr) return;
  call = std::make_unique<ConvertCall>();
  call->serial = next_serial_++;
  call->call = std::move(in);
  call->until = now_ + config_.store_timeout;
  SendConvert(*call);
}

void Broker::SendConvert(ConvertCall& call) {
  call.op = 0;
  call.retry_at = kNever;
  if (store_up_) {
    Op op;
    op.verb = Op::Verb::kConvert;
    op.name = call.call.name;
    op.caller = {call.call.session, call.call.request};
    call.op = SendOp(std::move(op));
    call.retry_at = now_ + kAttemptMax;
    ++call.attempts;
    Command(StoreConvert{call.op, call.call.name, call.call.owner, call.call.token, call.call.info});
  }
  Arm(call, std::min(call.until, call.retry_at));
}

void Broker::OnConvertTimer(ConvertCall& call) {
  if (now_ >= call.until) {
    const std::string why = !store_up_ ? store_trouble_ : call.trouble.empty() ? "no answer" : call.trouble;
    RefuseConvert(call.call, RefusalReason::kStoreUnavailable,
                  why + "; whether the lease is SHARED by now is not known: treat it as that and ask again");
    return Forget(call);
  }
  if (call.op != 0) NoteSilence("a conversion unanswered");
  SendConvert(call);
}

void Broker::OnConvertReply(const Op& op, OpId id, StoreReply& reply) {
  const auto* done = std::get_if<ConvertDone>(&reply.outcome);
  if (done != nullptr) TakeNext(op, done->next, done->look);
  const auto found = convert_calls_.find({op.caller.session, op.caller.request});
  if (found == convert_calls_.end()) return;
  ConvertCall& call = *found->second;
  if (done == nullptr) {
    if (call.op != id) return;
    const auto* failed = std::get_if<StoreFailed>(&reply.outcome);
    if (failed != nullptr && failed->kind == FailureKind::kForeignKey) {
      RefuseConvert(call.call, RefusalReason::kForeignKey, failed->cause);
      return Forget(call);
    }
    if (failed != nullptr) call.trouble = failed->cause;
    if (const auto* unknown = std::get_if<StoreUnknown>(&reply.outcome)) call.trouble = unknown->cause;
    call.op = 0;
    call.retry_at = store_up_ ? now_ + BackOff(call.attempts) : kNever;
    return Arm(call, std::min(call.until, call.retry_at));
  }
  switch (done->result) {
    case ConvertDone::Result::kConverted:
      Tell(op.caller, Converted{call.call.name, call.call.owner, call.call.token});
      break;
    case ConvertDone::Result::kNotHolder:
      RefuseConvert(call.call, RefusalReason::kNotHolder, "the store has no such holder");
      break;
    case ConvertDone::Result::kAnotherMode:
      RefuseConvert(call.call, RefusalReason::kNotSupported, "it holds permits, which have no other mode");
      break;
  }
  Forget(call);
}

void Broker::RefuseConvert(const Convert& call, RefusalReason reason, std::string cause) {
  Note({.kind = FactKind::kRefused, .refusal = reason, .name = call.name, .detail = {}});
  Tell({call.session, call.request}, Refused{.reason = reason, .cause = std::move(cause), .holders = {}});
}

void Broker::Forget(ConvertCall& call) {
  timers_.Cancel(call);
  const std::pair<SessionId, RequestId> asked{call.call.session, call.call.request};
  convert_calls_.erase(asked);
}

}  // namespace distlock::core
