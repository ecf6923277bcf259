// SPDX-License-Identifier: Apache-2.0
//
// The lease id: all that Renew and Release need to know, as one word of base64url. Secret, because it holds the owner
// id.
//   version(1) owner(16) ttl_ms(4) hold_until_us(8) token(8) escaped lock name, check(4); numbers big-endian
// The check is a CRC-32 of everything before it. It tells a damaged id from the id of a lease that has ended; it is not
// a signature. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/lock_name.h"
#include "core/types.h"

namespace distlock::contract {

struct LeaseId {
  core::LockName name;
  core::OwnerId owner{};
  core::Duration ttl{};        // whole milliseconds, at most 2^32 - 1 of them
  core::StoreTime hold_until;  // when max_hold ends it; us = 0: no max_hold
  uint64_t token = 0;          // greater than 0
  friend bool operator==(const LeaseId&, const LeaseId&) = default;
};

std::string EncodeLeaseId(const LeaseId& lease);

// Accepts exactly the texts that EncodeLeaseId makes for valid leases; nullopt for everything else.
std::optional<LeaseId> DecodeLeaseId(std::string_view text);

}  // namespace distlock::contract
