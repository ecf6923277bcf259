// SPDX-License-Identifier: Apache-2.0
//
// Ids of owners and brokers. An owner id is the secret that proves ownership in the store; a holder id is its public
// digest. Pure, except RandomOwnerId, DetachedOwnerId, OwnerIdOfTry, OwnerIdOnStream, RandomHex and AdoptionTries.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/caller_messages.h"
#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::contract {

// For a lease on a stream, from the cryptographic generator of OpenSSL. Aborts when that fails, because no lock is safe
// without it.
core::OwnerId RandomOwnerId();

// The same, of a detached lease: see core::IsDetached.
core::OwnerId DetachedOwnerId();

// `bytes` random bytes as lower-case hex.
std::string RandomHex(size_t bytes);

// Every broker makes the same id from the same lock and request id. It is as hard to guess as the request id.
core::OwnerId OwnerIdOf(const core::LockName& name, std::string_view request_id);

// Owners derive from this instead of `request_id` where callers have identities: so one caller's request id is of no
// use to another. Without identity, or without request id: `request_id` itself.
std::string RequestOf(std::string_view identity, std::string_view request_id);

// For one try of an acquire on a stream: see core::IsTry. New in each call; the first half is derived as above.
core::OwnerId OwnerIdOfTry(const core::LockName& name, std::string_view request_id, uint32_t generation);

// For an acquire by Session or Hold: of a try of its request, or random where it has no place to keep.
core::OwnerId OwnerIdOnStream(const core::Acquire& acquire, std::string_view request_id, uint32_t generation);

// One try of an adoption.
struct AdoptionTry {
  uint32_t generation = 0;  // OpenSession's
  uint32_t number = 0;      // of AdoptionTries
};

// Numbers the adoptions that one session asks for, in their order. One thread at a time.
class AdoptionTries {
 public:
  AdoptionTries();
  explicit AdoptionTries(uint32_t random) : last_(random) {}

  // The upper half stays: it tells apart the sessions of a client that does not count them. The lower half counts, from
  // anywhere on and around, so that two sessions hardly ever have a number in common.
  uint32_t Next() { return last_ = (last_ & 0xffff0000) | ((last_ + 1) & 0xffff); }

 private:
  uint32_t last_;
};

// The owner id of one try of an adoption: see core::Adopt::owner.
core::OwnerId OwnerIdOfAdoption(const core::LockName& name, std::string_view request_id, const AdoptionTry& of);

// 16 hex digits that tell holders apart and reveal nothing of the owner id.
std::string HolderIdOf(const core::OwnerId& owner);

// The id by which the store knows a shard of a broker. Shard 0 has the broker's own id.
std::string ShardBrokerId(std::string_view broker_id, int shard);

// True for the owner id that the store keeps while nobody holds the lock and a lock_delay is running.
bool IsBlocked(const core::OwnerId& owner);

}  // namespace distlock::contract
