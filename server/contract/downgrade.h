// SPDX-License-Identifier: Apache-2.0
//
// Checks a downgrade from EXCLUSIVE to SHARED: the Downgrade call and a session's DowngradeLease. Pure; any thread.
#pragma once

#include <string_view>
#include <variant>

#include "contract/limits.h"
#include "core/messages.h"
#include "distlock/v1/lock.pb.h"

namespace distlock::contract {

// Sets everything but session and request. `lease_id` names the lease when `acquire_id` is 0, and is ignored otherwise.
// `path` is the enclosing field in the names of bad fields, such as "downgrade"; may be empty.
std::variant<core::Downgrade, v1::Refusal> CheckDowngrade(const Limits& limits, int64_t acquire_id,
                                                          std::string_view lease_id, std::string_view path);

}  // namespace distlock::contract
