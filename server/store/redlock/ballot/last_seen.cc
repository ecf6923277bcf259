// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/last_seen.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "store/text.h"

namespace distlock::store::ballot {

core::Duration UntilQuiet(const LastSeen& seen, core::Duration longest_ttl) {
  const auto end_of = [](core::StoreTime at, core::Duration lasts) {
    return at.us == 0 ? int64_t{0} : at.us + std::chrono::duration_cast<std::chrono::microseconds>(lasts).count();
  };
  const int64_t gone = std::max(end_of(seen.beat, kBeatLasts), end_of(seen.announced, kAnnouncementLasts));
  if (gone == 0) return {};
  const core::Duration since_gone = std::chrono::microseconds(seen.now.us - gone);
  return std::max(core::Duration::zero(), std::max(longest_ttl, seen.longest_ttl) - since_gone);
}

std::string WhyNotQuiet(const std::string& server, const LastSeen& seen, core::Duration longest_ttl) {
  const core::Duration left = UntilQuiet(seen, longest_ttl);
  if (left == core::Duration::zero()) return "";
  const auto seconds = [](core::Duration time) { return std::chrono::ceil<std::chrono::seconds>(time).count(); };
  const auto ago = std::chrono::microseconds(seen.now.us - std::max(seen.beat.us, seen.announced.us));
  return Cat(server, " saw another broker ", seconds(ago), " s ago, and a lease of that one may last ",
             seconds(std::max(longest_ttl, seen.longest_ttl)),
             " s: stop all other brokers of these servers, and call again in ", seconds(left),
             " s; or, if they were stopped as long ago as that lease may last, with all_brokers_stopped");
}

}  // namespace distlock::store::ballot
