// SPDX-License-Identifier: Apache-2.0
#include "history/check.h"

#include "history/checks.h"

namespace distlock::sim {

std::vector<Violation> CheckAll(const History& history) {
  const Index index(history);
  if (!index.contradiction.empty()) return {{"history", "the history contradicts itself: " + index.contradiction}};
  Report report(index);
  CheckBelief(index, report);
  CheckTokens(index, report);
  CheckQueues(index, report);
  CheckRecovery(index, report);
  CheckLiveness(index, report);
  CheckLosses(index, report);
  CheckTerms(index, report);
  CheckLooks(index, report);
  return report.Take();
}

}  // namespace distlock::sim
