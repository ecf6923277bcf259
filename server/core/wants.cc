// SPDX-License-Identifier: Apache-2.0
#include "core/wants.h"

#include "core/check.h"
#include "core/claims.h"
#include "core/limits.h"
#include "core/sessions.h"

namespace distlock::core {

void Wants::OnHolders(const LockName& name, const std::vector<HolderView>& holders) {
  for (const HolderView& holder : holders) {
    const bool is_blocked = holder.owner == OwnerId{};  // by what a holder has left, with all that it said of itself
    if (holder.wanted_by == 0 || holder.token == 0 || is_blocked) continue;
    Tell(name, holder.owner, holder.token, holder.wanted_by);
  }
}

void Wants::OnMismatch(const LockName& name) {
  for (auto at = leases_.lower_bound({name, OwnerId{}}); at != leases_.end() && at->first == name; ++at) {
    const Lease* const lease = claims_.LeaseOf(at->second);
    if (lease != nullptr) Tell(name, lease->owner, lease->token, 0);
  }
}

void Wants::Handle(const WantedNotice& in) {
  if (LeaseOf(in.owner, in.token) != nullptr) Tell(in.name, in.owner, in.token, 0);
}

void Wants::OnBegin(const Lease& lease) {
  if (lease.tell_wanted) leases_.emplace(lease.name, lease.owner);
}

void Wants::OnEnd(const Lease& lease) {
  if (lease.tell_wanted) leases_.erase({lease.name, lease.owner});
}

void Wants::AskWhoWaits(const Lease& lease) {
  if (lease.tell_wanted && core_.store_up) Send(lease.name, lease.owner, lease.token, 0);
}

// Null: there is none here that can be told. That of a bundle is asked about when its client has it.
const Lease* Wants::LeaseOf(const OwnerId& owner, uint64_t token) const {
  const Lease* const lease = claims_.LeaseOf(owner);
  if (lease == nullptr || !lease->tell_wanted || lease->token != token) return nullptr;
  return lease->ending || lease->bundle != nullptr ? nullptr : lease;
}

void Wants::Tell(const LockName& name, const OwnerId& owner, uint64_t token, uint64_t through) {
  auto& grant = told_[{owner, token}];
  if (grant != nullptr) {
    grant->again = true;
    return;
  }
  grant = std::make_unique<WantedGrant>(*this);
  grant->name = name;
  grant->owner = owner;
  grant->token = token;
  grant->through = through;
  TellNow(*grant);
}

void Wants::TellNow(WantedGrant& grant) {
  grant.again = false;
  if (const Lease* const lease = LeaseOf(grant.owner, grant.token); lease != nullptr) {
    sessions_.TellHolder(*lease, Wanted{lease->name, lease->owner, lease->token});
  } else if (grant.through != 0 && core_.store_up) {
    Send(grant.name, grant.owner, grant.token, grant.through);
  }
  core_.Arm(grant, core_.now + kWantedPace);
}

void Wants::Send(const LockName& name, const OwnerId& owner, uint64_t token, uint64_t through) {
  const OpId id = core_.SendOp({.sender = this, .owner = owner, .name = name});
  core_.Command(StoreWanted{id, name, owner, token, through});
}

void Wants::OnTimer(WantedGrant& grant) {
  if (grant.again) return TellNow(grant);
  told_.erase({grant.owner, grant.token});
}

// An answer about a lease of another broker says nothing that is of use here.
void Wants::OnReply(const Op& op, OpId, StoreReply& reply) {
  const auto* const done = std::get_if<WantedDone>(&reply.outcome);
  if (done == nullptr || !done->is_held || done->queue_length == 0) return;
  const Lease* const lease = claims_.LeaseOf(op.owner);
  if (lease != nullptr && LeaseOf(op.owner, lease->token) != nullptr) Tell(op.name, op.owner, lease->token, 0);
}

size_t Wants::Check() const {
  size_t leases = 0;
  claims_.ForEach(&Claim::lease, [&](const Lease& lease) {
    DISTLOCK_CHECK(!lease.tell_wanted || leases_.contains({lease.name, lease.owner}));
    leases += lease.tell_wanted;
  });
  DISTLOCK_CHECK(leases == leases_.size());
  for (const auto& [of, grant] : told_) {
    DISTLOCK_CHECK(of == std::pair(grant->owner, grant->token) && grant->at != kNever);
  }
  return told_.size();
}

}  // namespace distlock::core
