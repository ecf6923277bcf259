// SPDX-License-Identifier: Apache-2.0
#include "store/redis/server_identity.h"

#include <charconv>

#include "store/text.h"

namespace distlock::store {

ServerInfo::ServerInfo(std::string_view info) {
  for (std::string_view line : Split(info, "\n")) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos) fields_.emplace(line.substr(0, colon), line.substr(colon + 1));
  }
}

std::string_view ServerInfo::Get(std::string_view name) const {
  const auto found = fields_.find(name);
  return found == fields_.end() ? std::string_view() : found->second;
}

std::string_view ServerInfo::Version() const {
  const std::string_view valkey = Get("valkey_version");
  return valkey.empty() ? Get("redis_version") : valkey;
}

uint64_t ServerInfo::KeysIn(int db) const {
  std::string_view text = Get(Cat("db", db));  // keys=3,expires=2,avg_ttl=9
  constexpr std::string_view kKeys = "keys=";
  if (!text.starts_with(kKeys)) return 0;  // a database without keys is not listed
  text.remove_prefix(kKeys.size());
  uint64_t keys = 0;
  std::from_chars(text.data(), text.data() + text.size(), keys);
  return keys;
}

ServerIdentity IdentityOf(const ServerInfo& info) {
  return {.run_id = std::string(info.Get("run_id")),
          .role = std::string(info.Get("role")),
          .version = std::string(info.Version()),
          .replid = std::string(info.Get("master_replid"))};
}

}  // namespace distlock::store
