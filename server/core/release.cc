// SPDX-License-Identifier: Apache-2.0
//
// Broker: releases and withdrawals. What may exist in the store is given back until the store has confirmed it, or until
// it must have expired by itself.
#include <algorithm>
#include <utility>

#include "core/broker.h"
#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {

void Broker::Handle(const Release& in) {
  const Listener listener{in.session, in.request};
  if (in.acquire != 0) {
    if (const auto session = sessions_.find(in.session); session != sessions_.end()) {
      if (const auto lease = session->second->leases.find(in.acquire); lease != session->second->leases.end()) {
        Lease& taken = *lease->second;
        if (LeaveOne(taken, in.acquire)) {
          return Tell(listener, Released{ReleaseOutcome::kStillHeld, taken.name, taken.owner, taken.token});
        }
        return TakeBack(*lease->second, listener, in.lapsed);
      }
    }
    Note({.kind = FactKind::kAlreadyGone, .name = {}, .detail = {}});
    return Tell(listener, Released{.outcome = ReleaseOutcome::kAlreadyGone, .name = {}});
  }
  if (const auto kept = leases_.find(in.owner); kept != leases_.end() && kept->second->bundle != nullptr) {
    LosePart(*kept->second, "its owner released it");
  }
  if (const auto lease = leases_.find(in.owner); lease != leases_.end()) {
    if (in.token != 0 && in.token != lease->second->token) {
      Note({.kind = FactKind::kAlreadyGone, .name = in.name, .detail = {}});
      return Tell(listener, Released{.outcome = ReleaseOutcome::kAlreadyGone, .name = in.name, .owner = in.owner});
    }
    if (lease->second->listener.session != in.session || lease->second->reentry != nullptr) {
      TellHolder(*lease->second, Released{ReleaseOutcome::kReleased, in.name, in.owner, lease->second->token});
    }
    return TakeBack(*lease->second, listener, in.lapsed);
  }
  past_grants_.Forget(in.owner);
  releases_.Release(in);
}

void Broker::OnReleaseTimer(PendingRelease& release) {
  const OwnerId owner = release.owner;
  if (releases_.OnTimer(release)) OnReleased(owner);
}

void Broker::OnReleaseReply(const Op& op, StoreReply& reply) {
  if (const auto* done = std::get_if<GiveBackDone>(&reply.outcome)) TakeNext(op, done->next, done->look);
  if (releases_.OnReply(op, reply.op, reply)) OnReleased(op.owner);
}

void Broker::OnDowngradeReply(const Op& op, StoreReply& reply) {
  if (const auto* done = std::get_if<ConvertDone>(&reply.outcome)) TakeNext(op, done->next, done->look);
  downgrades_.OnReply(op, reply.op, reply);
}

void Broker::OnForceReply(const Op& op, StoreReply& reply) {
  if (const auto* done = std::get_if<ForceDone>(&reply.outcome)) TakeNext(op, done->next, done->look);
  force_calls_.OnReply(op, reply.op, reply);
}

// What a command that made room has brought: grants to waiters of this broker, and whether there is more to do.
void Broker::TakeNext(const Op& op, const std::vector<HolderView>& all, bool look) {
  for (const HolderView& next : all) {
    HandOff(op.name, next.owner, next.token, next.since, next.ttl, op.sent + next.ttl - Margin(next.ttl),
            Arrival::kReply);
  }
  if (const auto queue = queues_.find(op.name); look && queue != queues_.end()) Tend(*queue->second);
}

// A repeat of the request has come while its owner was being released: it was not asked for meanwhile, or its place or
// grant went with the release.
void Broker::OnReleased(const OwnerId& owner) {
  const auto waiter = waiters_.find(owner);
  if (waiter == waiters_.end()) return;
  if (waiter->second->queued) LosePlace(*waiter->second);
  Ask(*waiter->second);
}

}  // namespace distlock::core
