// SPDX-License-Identifier: Apache-2.0
#include "core/claims.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace distlock::core {

Claim& Claims::At(const OwnerId& owner) {
  std::unique_ptr<Claim>& claim = claims_[owner];
  if (claim == nullptr) claim = std::make_unique<Claim>();
  return *claim;
}

const Claim* Claims::Find(const OwnerId& owner) const {
  const auto found = claims_.find(owner);
  return found == claims_.end() ? nullptr : found->second.get();
}

void Claims::DropIfEmpty(const OwnerId& owner) {
  const auto found = claims_.find(owner);
  const Claim& claim = *found->second;
  const bool stands = claim.waiter != nullptr || claim.lease != nullptr || claim.release != nullptr ||
                      claim.left_until != Instant{} || claim.bundles > 0 || claim.adoptions > 0;
  if (!stands) claims_.erase(found);
}

bool Claims::IsKnown(const OwnerId& owner) {
  DropOld();
  const Claim* const claim = Find(owner);
  if (IsRepeatable(owner)) return true;
  return claim != nullptr && (claim->waiter != nullptr || claim->lease != nullptr || claim->release != nullptr ||
                              claim->left_until != Instant{});
}

bool Claims::MayChange(const OwnerId& owner) const {
  const Claim* const claim = Find(owner);
  return claim != nullptr && (claim->waiter != nullptr || claim->release != nullptr || claim->bundles > 0 ||
                              claim->adoptions > 0 || claim->promised_until > core_.now);
}

Waiter& Claims::Ask(std::unique_ptr<Waiter> waiter) {
  const OwnerId& owner = waiter->spec.owner;
  Claim& claim = At(owner);
  DISTLOCK_CHECK(claim.waiter == nullptr && claim.lease == nullptr);
  if (IsTry(owner) && waiter->bundle == nullptr) tries_.emplace(owner, waiter.get());
  claim.waiter = std::move(waiter);
  ++waiters_;
  return *claim.waiter;
}

void Claims::EndAsking(OwnerId owner) {
  Claim& claim = At(owner);
  DISTLOCK_CHECK(claim.waiter != nullptr);
  tries_.erase(owner);
  claim.waiter.reset();
  --waiters_;
  DropIfEmpty(owner);
}

Waiter* Claims::WaiterOf(const OwnerId& owner) const {
  const Claim* const claim = Find(owner);
  return claim == nullptr ? nullptr : claim->waiter.get();
}

Waiter* Claims::OtherTry(const OwnerId& owner) const {
  if (!IsTry(owner)) return nullptr;
  OwnerId least = owner;
  std::fill(least.begin() + least.size() / 2, least.end(), uint8_t{0});
  const auto other = tries_.lower_bound(least);
  return other == tries_.end() || !IsSameRequest(other->first, owner) ? nullptr : other->second;
}

Lease& Claims::Hold(std::unique_ptr<Lease> lease) {
  Claim& claim = At(lease->owner);
  DISTLOCK_CHECK(claim.lease == nullptr);
  claim.lease = std::move(lease);
  ++leases_;
  return *claim.lease;
}

void Claims::EndLease(OwnerId owner) {
  Claim& claim = At(owner);
  DISTLOCK_CHECK(claim.lease != nullptr);
  claim.lease.reset();
  --leases_;
  DropIfEmpty(owner);
}

Lease* Claims::LeaseOf(const OwnerId& owner) const {
  const Claim* const claim = Find(owner);
  return claim == nullptr ? nullptr : claim->lease.get();
}

PendingRelease& Claims::GiveBack(std::unique_ptr<PendingRelease> release) {
  Claim& claim = At(release->owner);
  DISTLOCK_CHECK(claim.release == nullptr);
  claim.release = std::move(release);
  ++releases_;
  return *claim.release;
}

void Claims::EndRelease(OwnerId owner) {
  Claim& claim = At(owner);
  DISTLOCK_CHECK(claim.release != nullptr);
  claim.release.reset();
  --releases_;
  DropIfEmpty(owner);
}

PendingRelease* Claims::ReleaseOf(const OwnerId& owner) const {
  const Claim* const claim = Find(owner);
  return claim == nullptr ? nullptr : claim->release.get();
}

bool Claims::IsReleasing(const OwnerId& owner, uint64_t token) const {
  const PendingRelease* const release = ReleaseOf(owner);
  if (release == nullptr || !release->holding) return false;
  return token == 0 || release->only_token == 0 || release->only_token == token;
}

void Claims::LeaveToTtl(const OwnerId& owner, Instant until, Instant promised_until) {
  DropOld();
  Claim& claim = At(owner);
  by_end_.erase({claim.left_until, owner});
  claim.left_until = until;
  claim.promised_until = promised_until;
  by_end_.emplace(until, owner);
}

void Claims::ForgetLeft(const OwnerId& owner) {
  const auto found = claims_.find(owner);
  if (found == claims_.end()) return;
  Claim& claim = *found->second;
  by_end_.erase({claim.left_until, owner});
  claim.left_until = claim.promised_until = {};
  DropIfEmpty(owner);
}

bool Claims::IsLeft(const OwnerId& owner) {
  DropOld();
  const Claim* const claim = Find(owner);
  return claim != nullptr && claim->left_until != Instant{};
}

size_t Claims::left() {
  DropOld();
  return by_end_.size();
}

void Claims::DropOld() {
  while (!by_end_.empty() && by_end_.begin()->first <= core_.now) ForgetLeft(OwnerId(by_end_.begin()->second));
}

void Claims::RemoveBundle(const OwnerId& owner) {
  Claim& claim = At(owner);
  DISTLOCK_CHECK(claim.bundles > 0);
  --claim.bundles;
  DropIfEmpty(owner);
}

void Claims::RemoveAdoption(const OwnerId& owner) {
  Claim& claim = At(owner);
  DISTLOCK_CHECK(claim.adoptions > 0);
  --claim.adoptions;
  DropIfEmpty(owner);
}

void Claims::Check() const {
  size_t waiters = 0;
  size_t leases = 0;
  size_t releases = 0;
  size_t left = 0;
  for (const auto& [owner, claim] : claims_) {
    DISTLOCK_CHECK(claim->waiter == nullptr || claim->waiter->spec.owner == owner);
    DISTLOCK_CHECK(claim->lease == nullptr || claim->lease->owner == owner);
    DISTLOCK_CHECK(claim->release == nullptr || claim->release->owner == owner);
    // A grant answers what its owner has asked for.
    DISTLOCK_CHECK(claim->waiter == nullptr || claim->lease == nullptr);
    DISTLOCK_CHECK(claim->promised_until <= claim->left_until);
    if (claim->left_until != Instant{}) DISTLOCK_CHECK(by_end_.contains({claim->left_until, owner}));
    waiters += claim->waiter != nullptr;
    leases += claim->lease != nullptr;
    releases += claim->release != nullptr;
    left += claim->left_until != Instant{};
  }
  DISTLOCK_CHECK(waiters == waiters_ && leases == leases_ && releases == releases_ && left == by_end_.size());
  for (const auto& [owner, waiter] : tries_) DISTLOCK_CHECK(WaiterOf(owner) == waiter);
}

}  // namespace distlock::core
