// SPDX-License-Identifier: Apache-2.0
//
// The AdoptLease command as the core's input. Pure; any thread.
#pragma once

#include <string_view>
#include <variant>

#include "contract/ids.h"
#include "contract/limits.h"
#include "core/messages.h"
#include "distlock/v1/lock_service.pb.h"

namespace distlock::contract {

// Sets everything but session, request and info, or names every bad field. `path` is the field of the command.
std::variant<core::Adopt, v1::Refusal> CheckAdopt(const Limits& limits, const v1::AdoptLease& wanted,
                                                  const AdoptionTry& of, std::string_view path,
                                                  std::string_view identity = {});

}  // namespace distlock::contract
