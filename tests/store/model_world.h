// SPDX-License-Identifier: Apache-2.0
//
// The world of the conformance suite in which brokers reach the simulator's modelled server over its simulated network,
// in virtual time. The production store of one server runs on it.
#pragma once

#include <memory>

#include "conformance.h"

namespace distlock::store {

std::unique_ptr<StoreWorld> MakeModelWorld();

}  // namespace distlock::store
