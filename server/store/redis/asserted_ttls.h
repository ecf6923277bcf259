// SPDX-License-Identifier: Apache-2.0
//
// For how long leases of this store may have been granted. Each broker writes its longest ttl into each server's
// heartbeat, again and again; what it reads there of others, at any server, it remembers here. A longer ttl matters for
// as long as a lease that was granted with it may last: for its own length, and kLater, since it was last said. Pure.
//
// Thread: the loop's. A value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace distlock::store {

class AssertedTtls {
 public:
  struct Assertion {
    core::Duration ttl{};
    core::Duration age{};  // since a broker has last said so
    bool operator==(const Assertion&) const = default;
  };

  // A broker that has stopped saying so may have granted its last lease a moment later.
  static constexpr core::Duration kLater = std::chrono::seconds(10);
  // So many are remembered, the longest ones. The shortest of them stands for those that there is no room for: it is
  // as if it had been said last when they were.
  static constexpr size_t kMost = 8;

  // An assertion that was read, or made, at `now`.
  void Hear(const Assertion& assertion, core::Instant now);
  // The longest ttl that any lease may still have; zero: nothing was heard.
  core::Duration Longest(core::Instant now) const;
  // The assertions that still matter, the longest ttl first.
  std::vector<Assertion> All(core::Instant now) const;

  // "ttl_ms:age_ms,..." as census.lua takes and gives them; of another shape: none.
  static std::string Text(const std::vector<Assertion>& assertions);
  static std::vector<Assertion> Parse(std::string_view text);

 private:
  struct Heard {
    core::Duration ttl{};
    core::Instant last{};
  };
  static bool Matters(const Heard& heard, core::Instant now) { return heard.last + heard.ttl + kLater > now; }

  std::vector<Heard> heard_;  // the longest ttl first, each with a later `last` than those before
};

}  // namespace distlock::store
