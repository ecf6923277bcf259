// SPDX-License-Identifier: Apache-2.0
//
// Asks the operators' HTTP port of a broker. Blocks, for 2 s where nobody answers. Any thread.
#pragma once

#include <string>

namespace distlock::cli {

// Whether a broker with this --http says at /healthz that it is alive. Asks this machine where `http` is every address.
bool IsHealthy(const std::string& http);

}  // namespace distlock::cli
