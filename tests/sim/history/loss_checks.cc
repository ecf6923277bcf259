// SPDX-License-Identifier: Apache-2.0
//
// I13: each loss of a lock, reported by the broker or found by the client, has a reason.
#include <algorithm>

#include "core/types.h"
#include "history/checks.h"

namespace distlock::sim {
namespace {

// The losses that a fault explains.
enum class Costs : uint8_t {
  kNothing,
  kItsOwn,  // losses of the faulty client
  kAny,     // losses of any lease
  kKeys,    // losses of any lease, also because its key is gone
};

Costs CostsOf(FaultKind kind) {
  switch (kind) {
    case FaultKind::kClientKilled:
    case FaultKind::kClientPaused:
    case FaultKind::kClientClock:
      return Costs::kItsOwn;
    case FaultKind::kBrokerKilled:
    case FaultKind::kBrokerPaused:
    case FaultKind::kBrokerDrained:
    case FaultKind::kBrokerClock:
    case FaultKind::kStorePaused:
    case FaultKind::kStoreRefuses:
    case FaultKind::kLinkReset:
    case FaultKind::kLinkSlow:
    case FaultKind::kLinkSilent:
    case FaultKind::kLinkOneWay:
      return Costs::kAny;
    case FaultKind::kStoreRestarted:
    case FaultKind::kStoreEmptied:
    case FaultKind::kKeyDeleted:
    case FaultKind::kStoreClock:
    case FaultKind::kFailover:
    case FaultKind::kPromoted:
      return Costs::kKeys;
    // A full store accepts renewals and releases, brokers load scripts again, and holders need no notices.
    case FaultKind::kStoreFull:
    case FaultKind::kScriptsFlushed:
    case FaultKind::kChannelLost:
    case FaultKind::kNoticesLost:
    case FaultKind::kCount:
      break;
  }
  return Costs::kNothing;
}

bool Explains(const Index& index, const Trouble& trouble, const Tenure& loss) {
  const LeaseTerms& terms = index.TermsOf(loss);
  // A fault may have effects on the lease until the lease would have ended without a renewal.
  const int64_t felt = trouble.until + terms.ttl_ns + index.history.validity_ns + index.Slack(loss.ended);
  // A grant that came too late for any belief, or for a detached lease too late for a long one, may have been delayed
  // when its request was sent, however long the request then waited.
  const int64_t least = terms.detached ? terms.ttl_ns / 2 : 0;
  const bool believed = loss.until != kNotSeen && loss.until > loss.told + least;
  const int64_t since = believed ? loss.ended : index.fates[static_cast<size_t>(loss.lease)].asked;
  if (trouble.from > loss.ended || felt < since) return false;
  if (trouble.lock >= 0 && trouble.lock != loss.lock) return false;
  const Costs costs = CostsOf(trouble.kind);
  switch (static_cast<core::LostReason>(loss.lost_reason)) {
    case core::LostReason::kDrained:
      return trouble.kind == FaultKind::kBrokerDrained;
    case core::LostReason::kForced:
      return false;
    case core::LostReason::kTaken:
      if (!terms.detached) return costs == Costs::kKeys;
      break;
    default:
      break;
  }
  return costs == Costs::kAny || costs == Costs::kKeys || (costs == Costs::kItsOwn && trouble.actor == terms.client);
}

// The loss is the max_hold of its own request.
bool ByMaxHold(const Index& index, const Tenure& loss) {
  const LeaseTerms& terms = index.TermsOf(loss);
  if (terms.max_hold_ns == 0) return false;
  const int64_t asked = index.fates[static_cast<size_t>(loss.lease)].asked;
  // For several locks on a stream max_hold counts from when all are granted, which is when the client receives each
  // grant.
  const int64_t since = terms.detached ? asked : terms.together && loss.told != kNotSeen ? loss.told : loss.Began();
  // The client's deadline is earlier than the broker's, by the allowances for its clock and for the network's delay,
  // for which a Hold takes a tenth of the validity.
  const int64_t allowance = terms.max_hold_ns / 100 + index.history.validity_ns / 10 + index.Slack(loss.ended);
  return loss.ended - since >= terms.max_hold_ns - allowance;
}

// The client received FORCED, or, when no broker could send it, found the lock gone: by a renewal, or when it moved. Of
// several servers some may have it yet, so that renewals are not answered until its deadline has passed.
bool ByForce(const Index& index, const Tenure& loss) {
  if (loss.forced == kNotSeen || loss.forced > loss.ended) return false;
  if (loss.why == EndedWhy::kStreamBroke) return true;
  if (loss.why == EndedWhy::kDeadline && index.TermsOf(loss).detached) return true;
  return loss.lost_reason == static_cast<int64_t>(core::LostReason::kForced) ||
         loss.lost_reason == static_cast<int64_t>(core::LostReason::kTaken);
}

// Votes of a detached lease that was released shortly before may stand where this one needs them.
bool ByStrayVotes(const Index& index, const Tenure& loss) {
  if (!index.history.stray_votes) return false;
  const int64_t since = loss.ended - 2 * index.history.longest_ttl_ns - index.history.validity_ns;
  for (size_t i = 0; i < index.fates.size(); ++i) {
    const LeaseTerms& terms = index.history.leases[i];
    const int64_t released = index.fates[i].released;
    if (terms.detached && terms.lock == loss.lock && released > since && released < loss.ended) return true;
  }
  return false;
}

}  // namespace

bool IsLoss(const Tenure& tenure) {
  return tenure.ended != kNotSeen &&
         (tenure.why == EndedWhy::kLost || tenure.why == EndedWhy::kDeadline || tenure.why == EndedWhy::kStreamBroke);
}

bool IsJustified(const Index& index, const Tenure& loss) {
  if (ByForce(index, loss)) return true;
  if (ByMaxHold(index, loss)) return true;
  if (loss.lost_reason == static_cast<int64_t>(core::LostReason::kMaxHold)) return false;
  if (loss.lost_reason == static_cast<int64_t>(core::LostReason::kTaken) && loss.told != kNotSeen &&
      index.Forgot(loss.lock, index.BeganNotBefore(loss), loss.ended)) {
    return true;
  }
  for (const Trouble& trouble : index.troubles) {
    if (trouble.from > loss.ended) break;
    if (Explains(index, trouble, loss)) return true;
  }
  return ByStrayVotes(index, loss);
}

void CheckLosses(const Index& index, Report& report) {
  for (const Tenure& tenure : index.tenures) {
    if (!IsLoss(tenure) || IsJustified(index, tenure)) continue;
    report.Add("I13", tenure.lock, {tenure.lease}, tenure.ended,
               report.Lease(tenure.lease) + " lost " + report.Lock(tenure.lock) + " at " + Report::At(tenure.ended) +
                   " although nothing was broken that explains it");
  }
}

}  // namespace distlock::sim
