// SPDX-License-Identifier: Apache-2.0
//
// The world of the conformance suite in which brokers reach a real server through sockets and a uv loop, in real time.
#pragma once

#include <memory>
#include <string>

#include "conformance.h"

namespace distlock::store {

// With a server of its own, which runs `binary`.
std::unique_ptr<StoreWorld> MakeServerWorld(const std::string& binary);

}  // namespace distlock::store
