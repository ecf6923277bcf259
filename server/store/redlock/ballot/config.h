// SPDX-License-Identifier: Apache-2.0
//
// The settings of a ballot, and its bounds. Values.
#pragma once

#include "store/redlock/ballot/messages.h"

namespace distlock::store::ballot {

struct Config {
  std::string broker_id;  // as scripts are given it; of this ballot alone, since it numbers its requests from 1
  size_t nodes = 3;       // configured: odd, 3..kMaxNodes
  Duration validity = std::chrono::seconds(3);
  uint32_t clock_drift_ppm = 500;
  Duration queue_slot = std::chrono::seconds(30);
  // A server whose clock was set counts again after so long: its keys ended at other times than was promised.
  Duration longest_ttl = std::chrono::seconds(30);
  Duration node_timeout = std::chrono::milliseconds(200);  // a server that has not answered by then is silent
  bool counts_listeners = true;
  uint64_t seed = 1;
};

// Further from the median of all clocks, and a server does not count.
inline constexpr Duration kMostSkew = std::chrono::milliseconds(250);
// So much later a waiter may have come and still stand before one that was told of its place.
inline constexpr Duration kTailSlack = std::chrono::milliseconds(5);
// Bounds of what is taken for a round trip.
inline constexpr Duration kShortestTrip = std::chrono::microseconds(250);
inline constexpr Duration kLongestTrip = std::chrono::milliseconds(50);
// After so many round trips a waiter whose votes come one by one asks for the rest, and another is not waited for.
inline constexpr int kGatherTrips = 4;
inline constexpr int kPatienceTrips = 6;
inline constexpr Duration kLongestBackOff = std::chrono::milliseconds(250);
inline constexpr int kSplitRetries = 3;
// When too few servers count, and it is not known until when.
inline constexpr Duration kLookAtOpenEnd = std::chrono::seconds(1);

}  // namespace distlock::store::ballot
