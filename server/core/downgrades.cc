// SPDX-License-Identifier: Apache-2.0
#include "core/downgrades.h"

#include <string>
#include <utility>

#include "core/limits.h"

namespace distlock::core {

// Whether the lease is on its way back to the store: its caller does not have it any more.
bool Downgrades::IsBeingReleased(const OwnerId& owner, uint64_t token) const {
  if (const Lease* const lease = claims_.LeaseOf(owner); lease != nullptr && lease->ending) {
    return token == 0 || token == lease->token;
  }
  return claims_.IsReleasing(owner, token);
}

void Downgrades::Handle(Downgrade& in) {
  if (in.acquire != 0) {
    const Session* const session = sessions_.Find(in.session);
    if (session == nullptr) return;
    const auto lease = session->leases.find(in.acquire);
    if (lease == session->leases.end()) {
      return core_.Refuse(in, RefusalReason::kNotHolder, "this session holds nothing under that id");
    }
    in.name = lease->second->name;
    in.owner = lease->second->owner;
    in.token = lease->second->token;
  }
  if (IsBeingReleased(in.owner, in.token)) {
    return core_.Refuse(in, RefusalReason::kNotHolder, "it is being given back");
  }
  if (const Lease* const lease = claims_.LeaseOf(in.owner); lease != nullptr && lease->reentry != nullptr) {
    Reentry& reentry = *lease->reentry;
    if (!reentry.others.empty()) {
      return core_.Refuse(in, RefusalReason::kNotSupported,
                          "it was taken " + std::to_string(reentry.others.size() + 1) +
                              " times, and all who have it count on its mode; release it but once");
    }
    // From now on, even before the store has done it. The store refuses permits, which are then held as before.
    if (reentry.want.mode == Mode::kExclusive) reentry.want.mode = Mode::kShared;
  }
  if (DowngradeCall* const call = Begin(std::move(in), core_.config.store_timeout)) Send(*call);
}

void Downgrades::Send(DowngradeCall& call) {
  if (!core_.store_up) return AwaitStore(call);
  const Downgrade& downgrade = call.request;
  const OpId id = BeginAttempt(call, kAttemptMax);
  const Lease* const lease = claims_.LeaseOf(downgrade.owner);
  core_.Command(StoreDowngrade{.op = id,
                               .name = downgrade.name,
                               .owner = downgrade.owner,
                               .token = downgrade.token,
                               .info = downgrade.info,
                               .elsewhere = lease == nullptr && !IsDetached(downgrade.owner)});
}

void Downgrades::OnReply(const Op& op, OpId id, StoreReply& reply) {
  DowngradeCall* const call = Find(op.recipient);
  if (call == nullptr) return;
  const auto* done = std::get_if<DowngradeDone>(&reply.outcome);
  if (done == nullptr) {
    if (call->op != id || RefuseForeignKey(*call, reply)) return;
    return RetryAfter(*call, reply, call->attempts);
  }
  switch (done->result) {
    case DowngradeDone::Result::kDowngraded:
      return Answer(*call, Downgraded{call->request.name, call->request.owner, call->request.token});
    case DowngradeDone::Result::kNotHolder:
      return Refuse(*call, RefusalReason::kNotHolder, "the store has no such holder");
    case DowngradeDone::Result::kElsewhere:
      return Refuse(*call, RefusalReason::kNotSupported,
                    "a stream of another broker has the lease, and nobody else could tell its client: downgrade "
                    "it there, or adopt it into a session here first");
    case DowngradeDone::Result::kAnotherMode:
      return Refuse(*call, RefusalReason::kNotSupported, "it holds permits, which have no other mode");
  }
}

}  // namespace distlock::core
