// SPDX-License-Identifier: Apache-2.0
//
// What Convert and a session's ConvertLease share: what is asked for, checked. Pure; any thread.
#pragma once

#include <string_view>
#include <variant>

#include "contract/limits.h"
#include "core/messages.h"
#include "distlock/v1/lock.pb.h"

namespace distlock::contract {

// Without session and request. `acquire` is 0 when `lease_id` names the lease; else that is not looked at. `path` is put before
// the names of fields, such as "convert".
std::variant<core::Convert, v1::Refusal> CheckDowngrade(const Limits& limits, core::RequestId acquire,
                                                        std::string_view lease_id, v1::LockMode mode,
                                                        std::string_view path);

}  // namespace distlock::contract
