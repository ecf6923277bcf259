// SPDX-License-Identifier: Apache-2.0
//
// Names for owners and brokers. An owner id is the secret that proves ownership in the store; a holder id is its public shadow.
// Pure but for RandomOwnerId and RandomHex; any thread.
#pragma once

#include <string>
#include <string_view>

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::contract {

// From the system's cryptographic generator. Aborts when that fails: without it nothing here is safe.
core::OwnerId RandomOwnerId();

// `bytes` random bytes as lower-case hex.
std::string RandomHex(size_t bytes);

// The same for the same lock and request id in every broker, and as hard to guess as the request id.
core::OwnerId OwnerIdOf(const core::LockName& name, std::string_view request_id);

// 16 hex digits that tell holders apart and give away nothing of the owner id.
std::string HolderIdOf(const core::OwnerId& owner);

// By what the store knows a shard of a broker: the first one by the broker's own id.
std::string ShardBrokerId(std::string_view broker_id, int shard);

// The owner id that stands for "nobody: a lock_delay is running".
bool IsBlocked(const core::OwnerId& owner);

}  // namespace distlock::contract
