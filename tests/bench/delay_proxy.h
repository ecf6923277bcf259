// SPDX-License-Identifier: Apache-2.0
//
// A process that stands between Redis and all its clients and holds back every byte, in each direction, for half of a
// round trip: a store at a distance. It changes neither order nor content, and has no limit of bandwidth.
#pragma once

#include <chrono>
#include <string>

namespace distlock::bench {

// In a process of its own: accepts connections on loopback TCP and a unix socket, and carries each to a connection of
// its own to `target`, until the process is killed. Returns the exit code, after saying what went wrong.
int RunDelayProxy(int port, const std::string& socket, const std::string& target, std::chrono::microseconds round_trip);

}  // namespace distlock::bench
