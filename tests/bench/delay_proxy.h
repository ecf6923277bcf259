// SPDX-License-Identifier: Apache-2.0
//
// A process that stands between Redis and all its clients and holds back every byte, in each direction, for half of a
// round trip: a store at a distance. It changes neither order nor content, and has no limit of bandwidth. A slow server
// is one whose proxy was sent kDelayNow.
#pragma once

#include <signal.h>

#include <chrono>
#include <string>

namespace distlock::bench {

inline constexpr int kDelayNow = SIGUSR1;

// In a process of its own: accepts connections on loopback TCP and a unix socket, and carries each to a connection of
// its own to `target`, until the process is killed. `is_told`: without a delay until kDelayNow. Returns the exit code,
// after saying what went wrong.
int RunDelayProxy(int port, const std::string& socket, const std::string& target, std::chrono::microseconds round_trip,
                  bool is_told);

}  // namespace distlock::bench
