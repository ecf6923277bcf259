// SPDX-License-Identifier: Apache-2.0
//
// A lock, its holders and waiters as lines for people and as JSON. Pure, any thread.
#pragma once

#include <distlock/inspect.h>

#include <optional>
#include <string>
#include <vector>

#include "duration.h"
#include "json.h"

namespace distlock::cli {

// "exclusive", "shared" or "permit".
std::string ModeName(LockMode mode);

// How long a lock has been held, for people: "12s", "2h13m5s", "350ms".
std::string HeldForAsText(const Holder& holder);

// The permits of a semaphore; PermitsOf knows them only when all of its holders are listed.
struct Permits {
  int64_t limit = 0;
  std::optional<int64_t> free;  // nothing while a lock_delay keeps some of them
};
std::optional<Permits> PermitsOf(const LockInfo& lock);

// The mode of the holders: "exclusive", "shared"; of a semaphore "1 of 3".
std::string ShareOf(const LockInfo& lock);

// Appends to `json`.
Json LockAsJson(const LockInfo& lock, bool with_waiters, Json json = Json::object());

// A line for the lock, then one for each holder, the block, and each waiter.
std::vector<std::string> LockAsText(const LockInfo& lock);

// A line of `ls`.
std::string LockAsRow(const LockInfo& lock);

// Why locks that look free are not granted now.
std::string HoldOffNote(Duration left);

// A line of `watch`, with at most 16 holders.
std::string ChangeAsText(const LockInfo& lock, const std::string& time);

}  // namespace distlock::cli
