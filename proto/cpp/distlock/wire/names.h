// SPDX-License-Identifier: Apache-2.0
//
// The names of the contract's reasons as errors and logs show them: those of the .proto without the enum's prefix, as
// "LOCK_HELD". Pure; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "distlock/v1/lock.pb.h"

namespace distlock::wire {

// "" for a number that this version of the contract does not have.
std::string_view NameOf(v1::RefusalReason reason);
std::string_view NameOf(v1::LostReason reason);

// nullopt: this version of the contract has no reason of that name.
std::optional<v1::RefusalReason> RefusalReasonOf(std::string_view name);

}  // namespace distlock::wire
