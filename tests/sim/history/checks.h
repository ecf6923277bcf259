// SPDX-License-Identifier: Apache-2.0
//
// The checkers, one for each theme. Each reads the index and adds violations to the report.
#pragma once

#include "history/index.h"
#include "history/report.h"

namespace distlock::sim {

void CheckBelief(const Index& index, Report& report);        // I1, I1', I3
void CheckTokens(const Index& index, Report& report);        // I2, I12
void CheckQueues(const Index& index, Report& report);        // I4, I5
void CheckClientQueues(const Index& index, Report& report);  // I5, where the store is not observed
void CheckRecovery(const Index& index, Report& report);      // I7
void CheckLiveness(const Index& index, Report& report);      // I6, I11
void CheckLosses(const Index& index, Report& report);        // I13
void CheckTerms(const Index& index, Report& report);         // I7, I8

// Whether an administrator took the lock without telling its client: the lease is detached, or its broker was out of
// reach.
bool IsTakenUntold(const Index& index, const Tenure& tenure);
// Both are also used for the summary.
bool IsLoss(const Tenure& tenure);
bool IsJustified(const Index& index, const Tenure& loss);

}  // namespace distlock::sim
