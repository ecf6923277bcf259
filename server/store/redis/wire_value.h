// SPDX-License-Identifier: Apache-2.0
//
// The text values inside the store: owner ids in hex, decimal numbers, and the holder and waiter values of
// lua/README.md. Parsers refuse malformed text; a number too large for its type becomes the largest of the type. Pure;
// any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/types.h"
#include "store/store.h"

namespace distlock::store {

std::string HexOfOwner(const core::OwnerId& owner);
std::optional<core::OwnerId> ParseOwner(std::string_view hex);

// Decimal digits only.
std::optional<uint64_t> ParseNumber(std::string_view digits);

// Milliseconds, rounded up, at least 1: the store must not forget a lease before the broker does.
int64_t CeilMs(core::Duration duration);
core::Duration FromMs(uint64_t ms);
core::Duration FromPttl(int64_t pttl_ms);  // negative (no key, no TTL) is zero

core::StoreTime AsStoreTime(uint64_t us);  // at most core::kMaxStoreTime

// "1;owner;token;since_us;ttl_ms;delay_ms;info"
std::optional<core::HolderView> ParseHolder(std::string_view value, int64_t pttl_ms);
// "broker_id;ttl_ms;delay_ms;want;since_us;info". A missing or malformed value leaves all but the owner empty.
LockView::WaiterView ParseWaiter(const core::OwnerId& owner, std::string_view value);

}  // namespace distlock::store
