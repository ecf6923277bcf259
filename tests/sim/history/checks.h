// SPDX-License-Identifier: Apache-2.0
//
// The checkers, one for each theme. Each reads the index and adds violations to the report.
#pragma once

#include "history/index.h"
#include "history/report.h"

namespace distlock::sim {

void CheckBelief(const Index& index, Report& report);         // I1, I1', I3
void CheckTokens(const Index& index, Report& report);         // I2, I12
void CheckQueues(const Index& index, Report& report);         // I4, I5
void CheckClientQueues(const Index& index, Report& report);   // I5, where the store is not observed
void CheckRecovery(const Index& index, Report& report);       // I7
void CheckLiveness(const Index& index, Report& report);       // I6, I11
void CheckLosses(const Index& index, Report& report);         // I13
void CheckTerms(const Index& index, Report& report);          // I7, I8
void CheckLooks(const Index& index, Report& report);          // I14, I15, I16
void CheckLooksByBelief(const Index& index, Report& report);  // the same, where the store is not observed

// For stories of looks.
std::string WordsOf(const Index& index, const Report& report, const Look& look);
// Whether a CheckToken said of its token what it showed as the newest.
bool Agrees(const Look& look);
// Whether slots of a Cluster moved meanwhile: then a list may miss a lock.
bool MayMove(const Index& index, const Look& look);

// A client with on_disconnect RELEASE accepts that its lock goes to another while it still believes. That needs a
// broken stream, and only faults break streams.
bool IsAccepted(const Index& index, const Tenure& tenure);
// Whether an administrator took the lock without telling its client: the lease is detached, or its broker was out of
// reach.
bool IsTakenUntold(const Index& index, const Tenure& tenure);
// Both are also used for the summary.
bool IsLoss(const Tenure& tenure);
bool IsJustified(const Index& index, const Tenure& loss);

}  // namespace distlock::sim
