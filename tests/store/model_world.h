// SPDX-License-Identifier: Apache-2.0
//
// The world of the conformance suite in which brokers reach the simulator's modelled server over its simulated network,
// in virtual time. The production store of one server runs on it, or, of several, that of a quorum.
#pragma once

#include <memory>

#include "conformance.h"

namespace distlock::store {

std::unique_ptr<StoreWorld> MakeModelWorld(size_t servers = 1);

}  // namespace distlock::store
