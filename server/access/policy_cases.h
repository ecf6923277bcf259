// SPDX-License-Identifier: Apache-2.0
//
// Tests of a policy that its owner keeps beside it (YAML): a list of cases, each `{who: PRINCIPAL or [..], verb: VERB,
// lock: NAMESPACE:KEY, expect: allow | deny}`; `lock` is left out for verbs of the broker, and `rule: NAME` may name
// the rule that must decide. `who: anonymous` is a caller without any proof. Pure; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "access/policy.h"

namespace distlock::access {

struct CaseOutcome {
  bool passed = false;
  std::string text;  // one line: file:line: what was asked, the answer, and what was expected
};

// InvalidArgument: the file of cases is wrong.
absl::StatusOr<std::vector<CaseOutcome>> RunCases(const std::shared_ptr<const Policy>& policy, std::string_view text,
                                                  std::string_view file);

}  // namespace distlock::access
