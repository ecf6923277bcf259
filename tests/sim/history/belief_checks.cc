// SPDX-License-Identifier: Apache-2.0
//
// I1, I1' and I3: compares beliefs with each other, with the store, and with the writes to the fenced register.
#include <algorithm>

#include "history/checks.h"

namespace distlock::sim {
namespace {

// The store lost the earlier grant and granted the lock anew. The earlier belief may last as long as it had been
// promised, a ttl at most.
bool Forgotten(const Index& index, const Tenure& earlier, int64_t given_anew, int64_t believed_until) {
  const int64_t promised = index.TermsOf(earlier).ttl_ns;
  for (const Forgetting& one : index.forgettings) {
    if (one.lock >= 0 && one.lock != earlier.lock) continue;
    const bool is_between = one.at >= index.BeganNotBefore(earlier) && one.at <= given_anew;
    if (is_between && given_anew <= one.found && believed_until <= one.at + promised) return true;
  }
  return false;
}

// Two beliefs overlap: is that excused by the way in which the first grant may end? Clients may receive grants late, so
// when the store cannot be observed, the tokens decide which grant was first. Of permits either may have ended before
// the other is believed in.
bool Excused(const Index& index, const Tenure& a, const Tenure& b, int64_t overlap_begin, int64_t overlap_end) {
  const auto is_over = [&](const Tenure& one) {
    return one.freed != kNotSeen && one.freed <= overlap_begin && IsAccepted(index, one);
  };
  if (is_over(a) || is_over(b)) return true;
  const auto as_first = [&](const Tenure& first, const Tenure& second) {
    return IsAccepted(index, first) || Forgotten(index, first, second.Began(), overlap_end);
  };
  if (!index.sees_store && index.TokensMayRepeat(a.lock, kNotSeen, overlap_end))
    return as_first(a, b) || as_first(b, a);
  const bool a_is_first = index.sees_store ? a.Began() <= b.Began() : a.token <= b.token;
  return a_is_first ? as_first(a, b) : as_first(b, a);
}

std::string Interval(const Report& report, const Tenure& tenure, const Belief& belief) {
  return report.Lease(tenure.lease) + " (token " + std::to_string(tenure.token) + ") from " + Report::At(belief.from) +
         " to " + Report::At(belief.until);
}

// I1 among clients: a sweep over the intervals of each lock; few are open at a time.
void CheckOverlaps(const Index& index, Report& report) {
  std::vector<const Belief*> open;
  int32_t lock = -1;
  for (const Belief& belief : index.beliefs) {
    if (belief.lock != lock) open.clear();
    lock = belief.lock;
    std::erase_if(open, [&](const Belief* other) { return other->until <= belief.from; });
    const Tenure& tenure = index.tenures[static_cast<size_t>(belief.tenure)];
    const LeaseTerms& terms = index.TermsOf(tenure);
    uint64_t permits = terms.permits;
    for (const Belief* other : open) {
      const Tenure& earlier = index.tenures[static_cast<size_t>(other->tenure)];
      if (earlier.lease == tenure.lease) continue;
      const int64_t overlap_end = std::min(other->until, belief.until);
      if (Excused(index, earlier, tenure, belief.from, overlap_end)) continue;
      if (MayShare(terms, index.TermsAt(earlier, belief.from))) {
        permits += index.TermsOf(earlier).permits;
        if (terms.kind == HoldKind::kShared || permits <= terms.limit) continue;
      }
      if (!report.Wants("I1")) return;
      report.Add("I1", lock, {earlier.lease, tenure.lease}, overlap_end,
                 (permits > terms.limit && terms.kind == HoldKind::kPermit ? "more believed in permits of "
                                                                           : "two believed in ") +
                     report.Lock(lock) + " for " + Report::Span(overlap_end - belief.from) + ": " +
                     Interval(report, earlier, *other) + ", and " + Interval(report, tenure, belief));
    }
    open.push_back(&belief);
  }
}

// I1 and I3 against the store: belief lies within the time in which the store held the lock for the lease.
void CheckAgainstStore(const Index& index, const Tenure& tenure, Report& report) {
  const std::string who = report.Lease(tenure.lease) + " (token " + std::to_string(tenure.token) + ")";
  if (tenure.took == kNotSeen || tenure.from < tenure.took) {
    report.Add("I1", tenure.lock, {tenure.lease}, tenure.until,
               who + " believed from " + Report::At(tenure.from) + " on, " +
                   (tenure.took == kNotSeen ? "but the store never gave it " + report.Lock(tenure.lock)
                                            : "before the store gave it " + report.Lock(tenure.lock)));
    return;
  }
  if (tenure.freed == kNotSeen || tenure.until <= tenure.freed) return;
  if (IsAccepted(index, tenure) || Forgotten(index, tenure, tenure.freed, tenure.until)) return;
  const bool by_release = tenure.how == FreedHow::kReleased;
  report.Add(by_release ? "I3" : "I1", tenure.lock, {tenure.lease}, tenure.until,
             who + " believed in " + report.Lock(tenure.lock) + " until " + Report::At(tenure.until) + ", " +
                 Report::Span(tenure.until - tenure.freed) + " after " +
                 (by_release ? "somebody had released it" : "the store had let it go"));
}

// I3: a downgrade without the client's request, while the client relies on being alone.
void CheckDowngradeHadReason(const Tenure& tenure, Report& report) {
  if (tenure.downgraded_unasked == kNotSeen) return;
  report.Add("I3", tenure.lock, {tenure.lease}, tenure.downgraded_unasked,
             "the store made " + report.Lock(tenure.lock) + " SHARED at " + Report::At(tenure.downgraded_unasked) +
                 ", but " + report.Lease(tenure.lease) + " had it EXCLUSIVE and had not asked for that");
}

// I3 for leases without belief: in a calm run each release has a reason that the client knows of.
void CheckReleaseHadReason(const Index& index, const Tenure& tenure, Report& report) {
  const Fate& fate = index.fates[static_cast<size_t>(tenure.lease)];
  const LeaseTerms& terms = index.TermsOf(tenure);
  // A request for several locks releases those that it took first when another is refused.
  if (!index.history.calm || terms.detached || terms.max_hold_ns > 0 || (terms.together && tenure.told == kNotSeen))
    return;
  if (tenure.freed == kNotSeen || tenure.how != FreedHow::kReleased) return;
  const bool let_go = (tenure.forced != kNotSeen && tenure.forced <= tenure.freed) ||
                      (tenure.ended != kNotSeen && tenure.ended <= tenure.freed) ||
                      (fate.gave_up != kNotSeen && fate.gave_up <= tenure.freed) ||
                      (fate.answered != kNotSeen && fate.answered <= tenure.freed && tenure.told == kNotSeen) ||
                      (fate.max_wait >= 0 && tenure.told == kNotSeen);
  if (let_go) return;
  report.Add("I3", tenure.lock, {tenure.lease}, tenure.freed,
             "the store let " + report.Lock(tenure.lock) + " go by a release at " + Report::At(tenure.freed) +
                 ", but " + report.Lease(tenure.lease) + " had neither released nor given it up");
}

// When the lock was given to the first who had it after `tenure`, and before `until`.
int64_t GivenAnew(const Index& index, const Tenure& tenure, int64_t until) {
  int64_t first = until;
  for (const Tenure& other : index.tenures) {
    const bool is_later = other.lock == tenure.lock && other.token > tenure.token && other.Began() != kNotSeen;
    if (is_later) first = std::min(first, other.Began());
  }
  return first;
}

// I1'
void CheckRegister(const Index& index, Report& report) {
  struct Best {
    uint64_t token = 0;
    int64_t lease = -1;
  };
  std::vector<Best> best(index.history.locks.size());
  for (const Record& record : index.history.records) {
    if (record.kind != RecordKind::kWrote || record.code == 0) continue;
    Best& seen = best[static_cast<size_t>(record.lock)];
    if (record.token < seen.token) {
      report.Add("I1'", record.lock, {seen.lease, record.lease}, record.at_ns,
                 report.Lease(record.lease) + " wrote to " + report.Lock(record.lock) + " at " +
                     Report::At(record.at_ns) + " with token " + std::to_string(record.token) +
                     " after a write with token " + std::to_string(seen.token));
    } else {
      seen = {record.token, record.lease};
    }
  }
  for (const Wrong& wrong : index.wronged) {
    const Record& record = index.history.records[static_cast<size_t>(wrong.record)];
    const Tenure& tenure = index.tenures[static_cast<size_t>(wrong.tenure)];
    const int64_t given_anew = GivenAnew(index, tenure, record.at_ns);
    // Another client rightly got the lock meanwhile.
    if (IsAccepted(index, tenure) || Forgotten(index, tenure, given_anew, record.at_ns)) continue;
    if (index.TokensMayRepeat(tenure.lock, kNotSeen, record.at_ns)) continue;
    report.Add("I1'", record.lock, {record.lease}, record.at_ns,
               report.Lease(record.lease) + " wrote to " + report.Lock(record.lock) + " at " +
                   Report::At(record.at_ns) + " while it believed, and was rejected");
  }
}

}  // namespace

bool IsAccepted(const Index& index, const Tenure& tenure) {
  return IsTakenUntold(index, tenure) || (index.TermsOf(tenure).risky && !index.history.calm);
}

bool IsTakenUntold(const Index& index, const Tenure& tenure) {
  if (tenure.forced == kNotSeen) return false;
  if (index.TermsOf(tenure).detached) return true;
  if (!index.sees_store) return !index.history.calm;
  return !index.history.calm && tenure.freed != kNotSeen && tenure.how == FreedHow::kForced;
}

void CheckBelief(const Index& index, Report& report) {
  CheckOverlaps(index, report);
  for (const Tenure& tenure : index.tenures) {
    // A store that was rolled back may grant a repeated request again, with the grant that had ended.
    if (tenure.came_back != kNotSeen && !index.Forgot(tenure.lock, tenure.ended, tenure.came_back)) {
      report.Add("I1", tenure.lock, {tenure.lease}, tenure.came_back,
                 report.Lease(tenure.lease) + " believed again at " + Report::At(tenure.came_back) +
                     " after its belief had ended");
    }
    if (!index.sees_store) continue;
    if (tenure.from != kNotSeen && tenure.until > tenure.from) CheckAgainstStore(index, tenure, report);
    CheckDowngradeHadReason(tenure, report);
    CheckReleaseHadReason(index, tenure, report);
  }
  CheckRegister(index, report);
}

}  // namespace distlock::sim
