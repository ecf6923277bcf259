// SPDX-License-Identifier: Apache-2.0
//
// I5 by the clients' requests and answers, where the store cannot be observed.
#include <algorithm>
#include <string>
#include <vector>

#include "history/checks.h"

namespace distlock::sim {
namespace {

// I5 as clients see it, where the store cannot be observed: the time from the end of all belief to the next grant.
class ClientQueues {
 public:
  ClientQueues(const Index& index, Report& report)
      : index_(index), report_(report), locks_(index.history.locks.size()) {}

  void Run() {
    for (const Belief& belief : index_.beliefs) Occupy(belief);
    // With many holders a gap proves nothing; nor where a request has one of several locks and waits for the next, or a
    // detached one, whose caller has left, may be repeated.
    std::vector<bool> shared(locks_.size(), false);
    for (const LeaseTerms& terms : index_.history.leases) {
      if (terms.kind != HoldKind::kExclusive || terms.together || terms.detached) {
        shared[static_cast<size_t>(terms.lock)] = true;
      }
    }
    for (size_t i = 0; i < index_.fates.size(); ++i) {
      const Fate& fate = index_.fates[i];
      if (shared[static_cast<size_t>(index_.history.leases[i].lock)]) continue;
      if (fate.asked != kNotSeen && fate.max_wait != 0) CheckWait(static_cast<int64_t>(i), fate);
    }
  }

 private:
  struct Held {
    int64_t from;
    int64_t until;
    int32_t tenure;
  };

  void Occupy(const Belief& belief) {
    std::vector<Held>& held = locks_[static_cast<size_t>(belief.lock)];
    if (!held.empty() && belief.from <= held.back().until) {
      if (belief.until > held.back().until) held.back() = {held.back().from, belief.until, belief.tenure};
    } else {
      held.push_back({belief.from, belief.until, belief.tenure});
    }
  }

  // Checks that each gap between two beliefs, or before the answer, is no longer than the end of the earlier belief
  // explains.
  void CheckWait(int64_t lease, const Fate& fate) {
    const LeaseTerms& terms = index_.history.leases[static_cast<size_t>(lease)];
    const int64_t until = fate.answered == kNotSeen ? std::min(index_.end, index_.quiet) : fate.answered;
    const std::vector<Held>& held = locks_[static_cast<size_t>(terms.lock)];
    auto next = std::upper_bound(held.begin(), held.end(), fate.asked,
                                 [](int64_t at, const Held& one) { return at < one.from; });
    int64_t free = fate.asked;
    const Held* before = nullptr;
    if (next != held.begin()) {
      before = &*std::prev(next);
      free = std::max(free, before->until);
    }
    while (true) {
      const int64_t end = next == held.end() ? until : std::min(next->from, until);
      if (end > free && !CheckGap(lease, free, end, before)) return;
      if (next == held.end() || next->from >= until) return;
      before = &*next;
      free = next->until;
      ++next;
    }
  }

  // From the end of its belief until the store has freed it and all know.
  int64_t FreeingTime(int64_t lease) const {
    const LeaseTerms& terms = index_.history.leases[static_cast<size_t>(lease)];
    if (index_.fates[static_cast<size_t>(lease)].released != kNotSeen) return terms.min_hold_ns;
    return PromiseTime(terms);
  }

  // The same of one that nobody releases.
  int64_t PromiseTime(const LeaseTerms& terms) const {
    // A broker whose waiter was not the next one finds out at the end of the ttl that it knows of: of an earlier
    // holder, perhaps.
    const int64_t known_ttl = std::max(terms.ttl_ns, index_.history.longest_ttl_ns);
    return std::max(terms.lock_delay_ns, terms.min_hold_ns) + index_.history.validity_ns +
           (terms.freed_by_promise ? 0 : known_ttl);
  }

  // Until when a vote that this one left behind may keep others out.
  int64_t StrayUntil(const Tenure& tenure) const {
    const LeaseTerms& terms = index_.history.leases[static_cast<size_t>(tenure.lease)];
    const bool may_stray = index_.history.stray_votes && terms.released_elsewhere;
    return may_stray ? tenure.until + terms.ttl_ns + terms.lock_delay_ns + index_.Slack(tenure.until) : kNotSeen;
  }

  bool CheckGap(int64_t lease, int64_t free, int64_t end, const Held* before) {
    int64_t due = std::max(free, index_.TroubledUntil(end)) + index_.Slack(end);
    int64_t last = -1;
    if (before != nullptr) {
      const Tenure& tenure = index_.tenures[static_cast<size_t>(before->tenure)];
      last = tenure.lease;
      due += FreeingTime(tenure.lease);
    }
    const int32_t lock = index_.history.leases[static_cast<size_t>(lease)].lock;
    const int64_t since = before == nullptr ? 0 : before->until;
    if (end <= due) return true;  // nearly always: what follows looks at all leases
    for (const Tenure& tenure : index_.tenures) {
      if (tenure.lock == lock && tenure.until != kNotSeen && tenure.until < end)
        due = std::max(due, StrayUntil(tenure));
    }
    // A client that lost it in the instant of the grant, to an administrator perhaps, never believed in it.
    for (const Tenure& tenure : index_.tenures) {
      const int64_t told = tenure.told;
      if (tenure.lock != lock || told == kNotSeen || told >= end || told < since || tenure.ended != told) continue;
      due = std::max(due, std::max(told, index_.TroubledUntil(end)) + index_.Slack(end) + FreeingTime(tenure.lease));
    }
    // A client that gave up, or asked another broker, may have been granted the lock at that instant: it never heard,
    // and the broker waits out its promise, or keeps the lock for another try.
    for (size_t i = 0; i < index_.fates.size(); ++i) {
      const Fate& fate = index_.fates[i];
      const int64_t left = fate.told < 0 ? std::max(fate.gave_up, fate.moved_on) : fate.moved_on;
      if (index_.history.leases[i].lock != lock || left == kNotSeen || left >= end) continue;
      const int64_t freed = PromiseTime(index_.history.leases[i]);
      if (left + freed < since) continue;
      due = std::max(due, std::max(left, index_.TroubledUntil(end)) + index_.Slack(end) + freed);
    }
    if (end <= due) return true;
    report_.Add("I5", lock, {lease, last}, end,
                "nobody believed in " + report_.Lock(lock) + " from " + Report::At(free) + " to " + Report::At(end) +
                    " while " + report_.Lease(lease) + " was waiting for it; that should have ended at " +
                    Report::At(due));
    return false;
  }

  const Index& index_;
  Report& report_;
  std::vector<std::vector<Held>> locks_;
};

}  // namespace

void CheckClientQueues(const Index& index, Report& report) { ClientQueues(index, report).Run(); }

}  // namespace distlock::sim
