// SPDX-License-Identifier: Apache-2.0
#include "redis/asked_by.h"

#include <regex>

#include "store/redis/wire_value.h"

namespace distlock::sim {

std::optional<Asked> AskedBy(const RedisModel& model, std::string_view holder_key, const core::OwnerId& owner) {
  static const std::regex kMark("p-?[0-9]+;([0-9a-f]+)\\.([0-9]{1,18});");
  const std::string hex = store::HexOfOwner(owner);
  std::string hold(model.String(holder_key).value_or(""));
  if (hold.find(hex) == std::string::npos) hold.clear();
  for (const auto& [field, slot] : model.Hash(holder_key)) {
    if (field == hex) hold = slot;
  }
  std::smatch mark;
  if (!std::regex_search(hold, mark, kMark)) return std::nullopt;
  return Asked{mark[1], std::stoull(mark[2])};
}

}  // namespace distlock::sim
