// SPDX-License-Identifier: Apache-2.0
//
// The real servers on this machine, for tests that compare them with the model. Any thread.
#pragma once

#include <string>
#include <vector>

namespace distlock::sim {

// The paths of redis-server and valkey-server, as far as they are in PATH. If there is none: the name of one, so that a
// test fails with a clear message instead of passing without a server.
std::vector<std::string> InstalledServers();

// "Redis" or "Valkey".
std::string KindOfServer(const std::string& binary);

}  // namespace distlock::sim
