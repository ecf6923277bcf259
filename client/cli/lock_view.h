// SPDX-License-Identifier: Apache-2.0
//
// A lock, its holders and waiters as lines for people and as JSON. Pure, any thread.
#pragma once

#include <string>
#include <vector>

#include "distlock/v1/lock.pb.h"
#include "distlock/v1/look.pb.h"
#include "duration.h"
#include "json.h"

namespace distlock::cli {

// Appends to `json`.
Json LockAsJson(const v1::LockInfo& lock, bool with_waiters, Json json = {});

// A line for the lock, then one for each holder, the block, and each waiter.
std::vector<std::string> LockAsText(const v1::LockInfo& lock);

// A line of `ls`. `name`: its first columns, of NameAsColumns.
std::string LockAsRow(const v1::LockInfo& lock, const std::string& name);
std::string NameAsColumns(const v1::LockInfo& lock, bool with_namespace_column);

// A line of `watch`, with at most 16 holders.
std::string ChangeAsText(const v1::LockInfo& lock, const std::string& time);

}  // namespace distlock::cli
