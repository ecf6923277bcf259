// SPDX-License-Identifier: Apache-2.0
//
// Reads a policy file (YAML; README.md shows one). All or nothing: an error names file, line and column, what is wrong
// there, and what is allowed, and never shows the content, which may be another file's. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "access/policy.h"

namespace distlock::access {

inline constexpr size_t kMostPolicyBytes = 1 << 20;
inline constexpr size_t kMostRules = 10'000;
inline constexpr size_t kMostPatterns = 100'000;  // entries of who and locks, aliases and groups counted each time

// `file` is for messages. `warnings` may be null; when the policy is good, it gets what in it can never match.
absl::StatusOr<Policy> ParsePolicy(std::string_view text, std::string_view file,
                                   std::vector<std::string>* warnings = nullptr);

}  // namespace distlock::access
