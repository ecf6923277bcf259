// SPDX-License-Identifier: Apache-2.0
//
// The engine of rights agrees with the plain decision of tests/access/oracle.h, on policies and callers that the input
// chooses; and a list of a prefix is allowed only where each lock inside it is.
#include <memory>

#include "access/draw.h"
#include "access/oracle.h"
#include "access/rights.h"
#include "bytes.h"
#include "core/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace distlock::access;
  distlock::fuzz::Bytes bytes(data, size);
  Draw draw{[&bytes](size_t below) { return bytes.Number<uint16_t>() % below; }};
  const auto policy = std::make_shared<const Policy>(draw.AnyPolicy());
  const Caller caller = draw.AnyCaller();
  const Rights rights(policy, caller);
  const Oracle oracle(*policy, caller);
  for (int question = 0; question < 8 && !bytes.empty(); ++question) {
    const auto verb = static_cast<Verb>(draw.below(kVerbs));
    const std::string ns = draw.Namespace();
    const std::string key = draw.Key();
    const Decision decision = IsLockVerb(verb) ? rights.May(verb, ns, key) : rights.MayAtBroker(verb);
    DISTLOCK_CHECK(decision.allowed == oracle.May(verb, ns, key));
    DISTLOCK_CHECK(!decision.allowed || !decision.rule.empty());
    if (IsLockVerb(verb) && rights.MayAll(verb, ns, key).allowed) {
      DISTLOCK_CHECK(oracle.May(verb, ns, key + draw.Word()));
    }
  }
  return 0;
}
