// SPDX-License-Identifier: Apache-2.0
//
// The parts that replies of several scripts have. nullopt: the reply has another shape. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "core/store_messages.h"
#include "store/redis/resp.h"

namespace distlock::store {

// Element `i`: a number as text; a count as an integer.
std::optional<uint64_t> Number(const ReplyArray& reply, size_t i);
std::optional<uint32_t> Count(const ReplyArray& reply, size_t i);

// x, s or p.
std::optional<core::Mode> ModeOf(std::string_view kind);

// How long ago `since` was when the script ran; every reply of a script has TIME behind its code.
core::Duration HeldFor(const ReplyArray& reply, core::StoreTime since);

// left_ms and value of each holder, from `i` up to `end`.
std::optional<std::vector<core::HolderView>> ReadHolders(const ReplyArray& reply, size_t i, size_t end);

// From `i` to the end: owner, token, since, ttl and delay of each.
std::optional<std::vector<core::HolderView>> ReadGrants(const ReplyArray& reply, size_t i);

// For a reply that says FOREIGN.
core::StoreFailed ForeignKey(const ReplyArray& reply);
// Reads a server's error for the command.
std::variant<core::StoreUnknown, core::StoreFailed> ReadError(std::string_view text);

}  // namespace distlock::store
