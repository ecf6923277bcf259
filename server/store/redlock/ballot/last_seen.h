// SPDX-License-Identifier: Apache-2.0
//
// When brokers were last at a server, as it shows, and until when a lease of theirs may last. Pure; values.
#pragma once

#include <string>

#include "core/types.h"

namespace distlock::store::ballot {

// All times by the server's clock; us = 0: never.
struct LastSeen {
  core::StoreTime now;
  core::StoreTime beat;          // the census of a broker that has hold-offs, which writes each second
  core::StoreTime announced;     // a broker that says which schemas it reads, as all do each minute
  core::Duration longest_ttl{};  // of the brokers that beat
};

// A broker may go on so long after it was last seen, with a second for its call to arrive.
inline constexpr core::Duration kBeatLasts = std::chrono::seconds(2);
inline constexpr core::Duration kAnnouncementLasts = std::chrono::seconds(61);

// How long until each lease of a broker that may have been there has ended; zero: that has passed.
core::Duration UntilQuiet(const LastSeen& seen, core::Duration longest_ttl);

// For people: `server` is not to be taken into another quorum yet; "": it may be.
std::string WhyNotQuiet(const std::string& server, const LastSeen& seen, core::Duration longest_ttl);

}  // namespace distlock::store::ballot
