// SPDX-License-Identifier: Apache-2.0
//
// The request that a vote at one of several servers was given to, as the hold's mark names it (lua/parts/mark.lua).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/types.h"
#include "redis/redis_model.h"

namespace distlock::sim {

struct Asked {
  std::string broker_id;  // hex, as in the mark
  uint64_t number = 0;    // of the request; grows with each of that broker
};

// For the owner's hold under `holder_key`; none: the owner has no hold there, or the hold has no mark. Any thread that
// may use the model.
std::optional<Asked> AskedBy(const RedisModel& model, std::string_view holder_key, const core::OwnerId& owner);

}  // namespace distlock::sim
