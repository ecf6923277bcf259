// SPDX-License-Identifier: Apache-2.0
//
// Whether a set of a primary and its replicas may keep locks, by what a sentinel says of it. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "core/types.h"
#include "store/redis/fitness.h"
#include "store/sentinel/sentinel_answer.h"

namespace distlock::store {

struct SetWishes {
  std::string primary_name;
  core::Duration usual_ttl{};  // of a lease
  int wait_replicas = 0;       // that must confirm each grant
};

// The status is Unavailable for what passes by itself after a failover, FailedPrecondition for what does not.
Fitness JudgeSet(const SetFacts& facts, const SetWishes& wishes);

}  // namespace distlock::store
