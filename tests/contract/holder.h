// SPDX-License-Identifier: Apache-2.0
//
// A holder as the store shows it, for tests of answers that describe holders.
#pragma once

#include <chrono>
#include <string>

#include "core/types.h"
#include "distlock/v1/lock.pb.h"

namespace distlock::contract {

// Holds a lock with a ttl of 15 s for 2.5 s more, under token 5. `owner`: its label.
inline core::HolderView Holder(const std::string& owner, bool detached = false) {
  v1::Holder facts;
  facts.set_owner(owner);
  facts.set_detached(detached);
  return {.owner = {7},
          .token = 5,
          .since = {1'000'000},
          .ttl = std::chrono::seconds(15),
          .time_left = std::chrono::milliseconds(2500),
          .info = facts.SerializeAsString()};
}

}  // namespace distlock::contract
