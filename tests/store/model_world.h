// SPDX-License-Identifier: Apache-2.0
//
// The world of the conformance suite in which brokers reach the simulator's modelled servers over its simulated
// network, in virtual time. The production stores of one server, of a quorum of several, and of a primary with sentinels
// run on it.
#pragma once

#include <memory>

#include "conformance.h"

namespace distlock::store {

// One server, or several independent ones.
std::unique_ptr<StoreWorld> MakeModelWorld(size_t servers = 1);
// Three sentinels that watch a primary and its two replicas.
std::unique_ptr<StoreWorld> MakeSentinelModelWorld();

}  // namespace distlock::store
