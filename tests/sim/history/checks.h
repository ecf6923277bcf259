// SPDX-License-Identifier: Apache-2.0
//
// The checkers, a theme each. Each reads the index and adds what it finds to the report.
#pragma once

#include "history/index.h"
#include "history/report.h"

namespace distlock::sim {

void CheckBelief(const Index& index, Report& report);    // I1, I1', I3
void CheckTokens(const Index& index, Report& report);    // I2, I12
void CheckQueues(const Index& index, Report& report);    // I4, I5
void CheckRecovery(const Index& index, Report& report);  // I7
void CheckLiveness(const Index& index, Report& report);  // I6, I11
void CheckLosses(const Index& index, Report& report);    // I13
void CheckTerms(const Index& index, Report& report);     // I7, I8

// Whether an administrator took it without its client being told: of a detached lease, or where its broker was out of reach.
bool IsTakenUntold(const Index& index, const Tenure& tenure);
// For the summary.
bool IsLoss(const Tenure& tenure);
bool IsJustified(const Index& index, const Tenure& loss);

}  // namespace distlock::sim
