// SPDX-License-Identifier: Apache-2.0
//
// Faults of a broker's connections.
#pragma once

#include <string>
#include <vector>

#include "quorum/servers.h"

namespace distlock::sim::quorum {

// The same to each of them, drawn from the dice; says what. They outlive the course.
std::string Trouble(Course& course, Dice& dice, const std::vector<Wire*>& wires);

}  // namespace distlock::sim::quorum
