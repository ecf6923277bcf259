// SPDX-License-Identifier: Apache-2.0
#include "redis/installed_servers.h"

#include <unistd.h>

#include <cstdlib>

#include "store/text.h"

namespace distlock::sim {

std::vector<std::string> InstalledServers() {
  std::vector<std::string> found;
  const char* path = getenv("PATH");
  for (const std::string_view name : {"redis-server", "valkey-server"}) {
    for (const std::string_view folder : store::Split(path == nullptr ? "/usr/bin" : path, ":")) {
      std::string candidate = store::Cat(folder, "/", name);
      if (access(candidate.c_str(), X_OK) != 0) continue;
      found.push_back(std::move(candidate));
      break;
    }
  }
  if (found.empty()) found.emplace_back("redis-server");
  return found;
}

std::string KindOfServer(const std::string& binary) { return store::Contains(binary, "valkey") ? "Valkey" : "Redis"; }

}  // namespace distlock::sim
