// SPDX-License-Identifier: Apache-2.0
//
// A lock, its holders and waiters as lines for people and as JSON. Pure, any thread.
#pragma once

#include <distlock/inspect.h>

#include <string>
#include <vector>

#include "duration.h"
#include "json.h"

namespace distlock::cli {

// "exclusive", "shared" or "permit".
std::string ModeName(LockMode mode);

// Appends to `json`.
Json LockAsJson(const LockInfo& lock, bool with_waiters, Json json = {});

// A line for the lock, then one for each holder, the block, and each waiter.
std::vector<std::string> LockAsText(const LockInfo& lock);

// A line of `ls`. `name`: its first columns, of NameAsColumns.
std::string LockAsRow(const LockInfo& lock, const std::string& name);
std::string NameAsColumns(const LockInfo& lock, bool with_namespace_column);

// A line of `watch`, with at most 16 holders.
std::string ChangeAsText(const LockInfo& lock, const std::string& time);

}  // namespace distlock::cli
