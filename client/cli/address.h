// SPDX-License-Identifier: Apache-2.0
//
// Facts about a broker's address that need no call. Any thread.
#pragma once

#include <optional>
#include <string>

#include "context.h"
#include "failure.h"

namespace distlock::cli {

// Why no broker can be reached at any of the addresses, however long one tries: a scheme that gRPC does not know, or
// sockets that this user must not open. Such a failure comes at once, and says what to do.
std::optional<Failure> UselessAddress(const Context& context);

// The default socket's path when the address is the default one only because that socket does not exist; else "".
std::string MissingDefaultSocket(const Context& context);

}  // namespace distlock::cli
