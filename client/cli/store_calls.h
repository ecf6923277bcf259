// SPDX-License-Identifier: Apache-2.0
//
// The calls that change a store as a whole. The C++ library does not have them, so this file alone in the room uses the
// stubs. Each blocks its thread and asks the first broker of the address that answers.
#pragma once

#include <distlock/types.h>

#include <string>

#include "context.h"

namespace distlock::cli {

// The answer says why nothing was changed, and what to do next; "": it is done.
Result<std::string> UpgradeStore(const Context& context, const Client& client, int32_t to);
Result<std::string> InitQuorum(const Context& context, const Client& client, bool all_brokers_stopped);

}  // namespace distlock::cli
