// SPDX-License-Identifier: Apache-2.0
//
// The real servers of this machine, which tests run on beside the model. Any thread.
#pragma once

#include <string>
#include <vector>

namespace distlock::sim {

// Those of redis-server and valkey-server that are in PATH, as paths. When there is none, the name of one: a test then
// fails and says so, as it must not pass for want of a server.
std::vector<std::string> InstalledServers();

// "Redis" or "Valkey".
std::string KindOfServer(const std::string& binary);

}  // namespace distlock::sim
