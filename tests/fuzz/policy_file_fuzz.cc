// SPDX-License-Identifier: Apache-2.0
//
// Files of a policy and of its cases: no text crashes the readers, an error names the file, and what is read can be
// decided by.
#include <memory>

#include "access/identify.h"
#include "access/policy_cases.h"
#include "access/policy_file.h"
#include "access/rights.h"
#include "bytes.h"
#include "core/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace distlock::access;
  distlock::fuzz::Bytes bytes(data, size);
  const bool is_policy = bytes.Flag();
  const std::string_view text = bytes.Rest();
  const auto check = [](const absl::Status& status) {
    const std::string message(status.message().data(), status.message().size());
    DISTLOCK_CHECK(status.ok() || message.starts_with("file:"));
  };
  if (!is_policy) {
    static const auto policy = std::make_shared<const Policy>(
        *ParsePolicy("version: 1\nrules:\n- {name: a, who: ['uid:1'], locks: ['n:k*'], may: [look]}\n", "policy"));
    check(RunCases(policy, text, "file").status());
    return 0;
  }
  auto policy = ParsePolicy(text, "file");
  check(policy.status());
  if (!policy.ok()) return 0;
  const auto shared = std::make_shared<const Policy>(*std::move(policy));
  for (const Caller& caller :
       {CallerOf({}, ""), CallerOf({{Kind::kK8s, "k8s:shop/worker"}, {Kind::kUid, "uid:0"}}, "")}) {
    const Rights rights(shared, caller);
    for (int verb = 0; verb < kLockVerbs; ++verb) {
      DISTLOCK_CHECK(!rights.May(static_cast<Verb>(verb), "shop", "k").allowed ||
                     rights.MayAnywhere(static_cast<Verb>(verb)));
    }
  }
  return 0;
}
