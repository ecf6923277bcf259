// SPDX-License-Identifier: Apache-2.0
//
// The facts of a history that the checkers need, gathered in one pass: who held which lock from when to when, and when
// each fault was active. Built once per history, then only read. Times are ns of the history's clock; kNotSeen means
// that something never happened.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "history/history.h"

namespace distlock::sim {

inline constexpr int64_t kNotSeen = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kForEver = std::numeric_limits<int64_t>::max();

// One grant of a lock to a lease. A lease has several when its request was repeated after the first grant had ended.
struct Tenure {
  int64_t lease = -1;
  int32_t lock = -1;
  uint64_t token = 0;
  int64_t told = kNotSeen;   // the client received the grant
  int64_t from = kNotSeen;   // first belief
  int64_t until = kNotSeen;  // end of the last belief
  int64_t ended = kNotSeen;
  EndedWhy why = EndedWhy::kReleasing;
  int64_t lost_reason = -1;  // core::LostReason, where known
  int64_t took = kNotSeen;
  int64_t took_again = kNotSeen;  // the last time that a rolled-back store held it again
  int64_t freed = kNotSeen;
  int64_t freed_first = kNotSeen;  // before a rolled-back store held it again
  FreedHow how = FreedHow::kReleased;
  int64_t downgraded = kNotSeen;  // SHARED from then on, at its client's request
  int64_t downgraded_unasked = kNotSeen;
  int64_t forced = kNotSeen;     // when an administrator began to take it
  int64_t came_back = kNotSeen;  // when belief began again after its end
  int told_times = 0;
  int32_t next = -1;  // the next tenure of the same lease

  // The latest time at which the store can have granted it.
  int64_t Began() const { return took != kNotSeen ? took : told; }
};

// The course of a lease's request.
struct Fate {
  int64_t asked = kNotSeen;
  int64_t max_wait = -1;
  int64_t gave_up = kNotSeen;
  int64_t moved_on = kNotSeen;  // the last time that it asked another broker
  int64_t answered = kNotSeen;  // granted, refused, or given up
  int64_t released = kNotSeen;  // the store has confirmed it
  int64_t yielded = kNotSeen;   // it does not rely on being alone any more
  int32_t first = -1;           // tenures
  int32_t last = -1;
  int32_t told = -1;  // the last tenure whose grant it received
};

struct Belief {
  int32_t lock;
  int32_t tenure;
  int64_t from;
  int64_t until;
};

struct Trouble {
  int64_t from;
  int64_t until;  // of the fault itself, without its effects
  FaultKind kind;
  int32_t actor;
  int32_t lock;
  int64_t value;
};

// A write that was rejected while its writer believed.
struct Wrong {
  int32_t record;
  int32_t tenure;
};

struct Forgetting {
  int64_t at;
  int64_t found;  // brokers know by then, and hold off
  int32_t lock;   // -1: all
};

class Index {
 public:
  explicit Index(const History& history);

  const History& history;
  std::string contradiction;      // why the records contradict each other; nothing else is valid then
  std::vector<Fate> fates;        // by lease
  std::vector<Tenure> tenures;    // in the order of their first record
  std::vector<Belief> beliefs;    // by lock, then `from`; those of one tenure never overlap
  std::vector<Trouble> troubles;  // by `from`
  std::vector<Forgetting> forgettings;
  std::vector<Wrong> wronged;
  bool sees_store = false;
  int64_t healed = kForEver;
  int64_t quiet = kForEver;
  int64_t end = 0;  // the last record

  // For a kGranted or kTook.
  const Tenure& Named(const Record& record) const {
    int32_t i = fates[static_cast<size_t>(record.lease)].first;
    while (tenures[static_cast<size_t>(i)].token != record.token) i = tenures[static_cast<size_t>(i)].next;
    return tenures[static_cast<size_t>(i)];
  }
  const LeaseTerms& TermsOf(int64_t lease) const { return history.leases[static_cast<size_t>(lease)]; }
  const LeaseTerms& TermsOf(const Tenure& tenure) const { return TermsOf(tenure.lease); }
  // The terms at that time: those of the request, but SHARED after a downgrade; where the store cannot be observed,
  // from when the client asked for that.
  LeaseTerms TermsAt(const Tenure& tenure, int64_t at) const {
    LeaseTerms terms = TermsOf(tenure);
    const int64_t from = sees_store ? tenure.downgraded : fates[static_cast<size_t>(tenure.lease)].yielded;
    if (from != kNotSeen && from <= at) terms.kind = HoldKind::kShared;
    return terms;
  }
  // The earliest time at which the store can have granted it.
  int64_t BeganNotBefore(const Tenure& tenure) const {
    return tenure.took != kNotSeen ? tenure.took : fates[static_cast<size_t>(tenure.lease)].asked;
  }
  // Whether the store lost this lock's data in [from, until].
  bool Forgot(int32_t lock, int64_t from, int64_t until) const;
  // Whether a fault in [from, until] can have made a broker miss a grant to one of its waiters, or lose the waiter's
  // place.
  bool MayBeDeaf(int32_t lock, int64_t from, int64_t until) const;
  // Whether a fault in [from, until] can have cost this lease a place that it should keep: the store or its broker lost
  // it, or its client could not ask again in time.
  bool MayLosePlace(int64_t lease, int64_t from, int64_t until) const;
  // By how much the store's clock went back in [from, until]: its locks last so much longer.
  int64_t WentBack(int64_t from, int64_t until) const;
  // Whether the store may have lost a token of time `first`, and its clock may have gone back since, so that tokens up
  // to `second` need not be in order.
  bool TokensMayRepeat(int32_t lock, int64_t first, int64_t second) const;
  // The end of the last fault before `at`, with its Aftermath(); kNotSeen: there was none. Later than `at` when a fault
  // or its aftermath covers `at`. Does not count faults of the actor `but`.
  int64_t TroubledUntil(int64_t at, int32_t but = -1) const;
  // How long a fault may have effects after its end.
  int64_t Aftermath() const { return history.recovery_ns + history.longest_ttl_ns + history.validity_ns; }
  // The tolerance of a bound that ends at that time. Slow messages may still be in flight when all faults are healed.
  int64_t Slack(int64_t at) const {
    const bool is_calm = history.calm || (at >= healed && at - healed >= history.slow_ns);
    return is_calm ? history.slack_ns + std::max<int64_t>(history.start_ns - at, 0) : history.slow_ns;
  }

 private:
  bool Fits(const Record& record);
  void Read(const Record& record, int32_t number);
  void ReadAsked(const Record& record, Fate& fate);
  void ReadBelief(const Record& record, Fate& fate);
  void ReadEnded(const Record& record, Fate& fate);
  void ReadFault(const Record& record);
  void ReadGranted(const Record& record, Fate& fate);
  void ReadWrote(const Record& record, int32_t number, const Fate& fate);
  // A downgrade, or an administrator that takes the lock.
  void ReadTaken(const Record& record, const Fate& fate);
  void ReadTook(const Record& record);
  void ReadFreed(const Record& record, const Fate& fate);
  void Answer(Fate& fate, int64_t at) const {
    if (fate.answered == kNotSeen) fate.answered = at;
  }
  Tenure& TenureOf(const Record& record);
  static bool IsOfAnother(const Record& record, const Tenure& tenure);

  std::vector<int32_t> open_belief_;  // by tenure: index into beliefs
  std::vector<int64_t> trouble_end_;  // the latest end among the first n troubles, after-effects included
  int64_t now_ = kNotSeen;
};

}  // namespace distlock::sim
