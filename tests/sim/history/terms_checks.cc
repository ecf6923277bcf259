// SPDX-License-Identifier: Apache-2.0
//
// I7 and I8 by the terms of a lease: belief never lasts longer than max_hold, and the lock is not granted within the
//    lock_delay after an abnormal end, nor, after a release, within the min_hold from the grant on.
#include "core/types.h"
#include "history/checks.h"

namespace distlock::sim {
namespace {

void CheckMaxHold(const Index& index, const Tenure& tenure, Report& report) {
  const int64_t max_hold = index.TermsOf(tenure).max_hold_ns;
  if (max_hold == 0 || tenure.told == kNotSeen || tenure.until == kNotSeen) return;
  const Fate& fate = index.fates[static_cast<size_t>(tenure.lease)];
  // For a detached lease max_hold counts by the store's clock.
  int64_t most = max_hold + index.history.slack_ns + index.WentBack(tenure.Began(), tenure.until);
  // At a quorum a server that was troubled counts from when the lease joined it, and a broker that takes the lease over
  // goes by the server that ends it last.
  const bool troubled = index.history.silent_minority || index.TroubledUntil(tenure.told) >= fate.asked;
  if (index.history.stray_votes && troubled) most += index.history.joins_ns;
  if (tenure.until - tenure.told <= most) return;
  report.Add("I7", tenure.lock, {tenure.lease}, tenure.until,
             report.Lease(tenure.lease) + " was told of its grant of " + report.Lock(tenure.lock) + " at " +
                 Report::At(tenure.told) + " and believed until " + Report::At(tenure.until) +
                 ", but its max_hold was " + Report::Span(max_hold));
}

// Whether the broker, too, saw an end that was not a release. That is not certain when client and broker may each have
// ended the lease first, because a client whose own deadline has passed releases its lock.
bool EndedAbnormally(const Tenure& tenure) {
  switch (tenure.why) {
    case EndedWhy::kClientDied:
    case EndedWhy::kStreamBroke:
      return tenure.ended != kNotSeen;
    case EndedWhy::kLost: {
      const auto reason = static_cast<core::LostReason>(tenure.lost_reason);
      return tenure.ended != kNotSeen && (reason == core::LostReason::kExpired || reason == core::LostReason::kDrained);
    }
    case EndedWhy::kReleasing:
    case EndedWhy::kDeadline:
      break;
  }
  return false;
}

void CheckLockDelay(const Index& index, const Tenure& before, const Tenure& after, Report& report) {
  const LeaseTerms& terms = index.TermsOf(before);
  if (terms.lock_delay_ns == 0 || terms.risky || before.until == kNotSeen || !EndedAbnormally(before)) return;
  if (before.forced != kNotSeen) return;  // a forced release has no lock_delay
  if (MayShare(index.TermsAt(before, after.took), index.TermsOf(after)))
    return;  // lock_delay blocks only the share that ended
  if (before.lease == after.lease || index.Forgot(before.lock, before.took, after.took)) return;
  // The store's clock counts it.
  const int64_t least = terms.lock_delay_ns - terms.lock_delay_ns / 500 - 2'000'000;
  if (after.took - before.until >= least) return;
  report.Add("I8", before.lock, {before.lease, after.lease}, after.took,
             "the store gave " + report.Lock(before.lock) + " to " + report.Lease(after.lease) + " " +
                 Report::Span(after.took - before.until) + " after the abnormal end of " + report.Lease(before.lease) +
                 ", whose lock_delay was " + Report::Span(terms.lock_delay_ns));
}

// Its client released it, the store heard of that, and nothing that went wrong can have ended it before.
bool EndedByRelease(const Index& index, const Tenure& tenure, int64_t until) {
  const Fate& fate = index.fates[static_cast<size_t>(tenure.lease)];
  return tenure.why == EndedWhy::kReleasing && tenure.freed != kNotSeen && tenure.how == FreedHow::kReleased &&
         fate.released != kNotSeen && fate.gave_up == kNotSeen && tenure.next < 0 && tenure.took_again == kNotSeen &&
         tenure.forced == kNotSeen && tenure.downgraded == kNotSeen && tenure.downgraded_unasked == kNotSeen &&
         index.TroubledUntil(until) < tenure.took;
}

void CheckMinHold(const Index& index, const Tenure& before, const Tenure& after, Report& report) {
  const int64_t min_hold = index.TermsOf(before).min_hold_ns;
  if (before.lease == after.lease || !EndedByRelease(index, before, after.took)) return;
  // The store's clock counts it.
  if (after.took - before.took >= min_hold - min_hold / 500 - 2'000'000) return;
  report.Add("I8", before.lock, {before.lease, after.lease}, after.took,
             "the store gave " + report.Lock(before.lock) + " to " + report.Lease(after.lease) + " " +
                 Report::Span(after.took - before.took) + " after its grant to " + report.Lease(before.lease) +
                 ", which released it, and whose min_hold was " + Report::Span(min_hold));
}

// The next grants of each lock after one with a min_hold.
void CheckMinHolds(const Index& index, Report& report) {
  std::vector<const Tenure*> before(index.history.locks.size());
  for (const Tenure& tenure : index.tenures) {
    if (tenure.took == kNotSeen) continue;
    const Tenure*& last = before[static_cast<size_t>(tenure.lock)];
    if (last != nullptr && last->took <= tenure.took) CheckMinHold(index, *last, tenure, report);
    last = index.TermsOf(tenure).min_hold_ns > 0 ? &tenure : nullptr;
  }
}

}  // namespace

void CheckTerms(const Index& index, Report& report) {
  for (const Tenure& tenure : index.tenures) CheckMaxHold(index, tenure, report);
  if (!index.sees_store) return;
  CheckMinHolds(index, report);
  std::vector<std::vector<const Tenure*>> delaying(index.history.locks.size());
  for (const Tenure& tenure : index.tenures) {
    if (tenure.took == kNotSeen) continue;
    std::vector<const Tenure*>& before = delaying[static_cast<size_t>(tenure.lock)];
    std::erase_if(before, [&](const Tenure* one) {
      return one->until != kNotSeen && one->until + index.TermsOf(*one).lock_delay_ns < tenure.took;
    });
    for (const Tenure* one : before) {
      if (one->took <= tenure.took) CheckLockDelay(index, *one, tenure, report);
    }
    if (index.TermsOf(tenure).lock_delay_ns > 0) before.push_back(&tenure);
  }
}

}  // namespace distlock::sim
