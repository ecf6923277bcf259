// SPDX-License-Identifier: Apache-2.0
//
// A broker's status in words: the reasons why locks are not granted, and what to do. Pure; any thread.
#pragma once

#include <distlock/admin.h>

#include <string>
#include <vector>

namespace distlock::cli {

struct Obstacle {
  std::string what;  // a sentence
  std::string advice;
  bool stops_all = true;  // else some locks are granted all the same, or all until one more server fails
};

// Empty: nothing keeps locks from being granted, but who holds them, and each server of a quorum counts.
std::vector<Obstacle> ObstaclesOf(const BrokerStatus& status);

}  // namespace distlock::cli
