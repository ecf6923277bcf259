// SPDX-License-Identifier: Apache-2.0
//
// What the checkers need to know of a history, gathered in one pass: who held what from when to when, what was broken when.
// Built once per history, then only read. Times are ns of the history's clock; kNotSeen where something never happened.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "history/history.h"

namespace distlock::sim {

inline constexpr int64_t kNotSeen = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kForEver = std::numeric_limits<int64_t>::max();

// One grant of a lock to a lease. A lease has none, one, or several: when its request was repeated after the first had ended.
struct Tenure {
  int64_t lease = -1;
  int32_t lock = -1;
  uint64_t token = 0;
  int64_t told = kNotSeen;   // to the client
  int64_t from = kNotSeen;   // first belief
  int64_t until = kNotSeen;  // end of the last one
  int64_t ended = kNotSeen;
  EndedWhy why = EndedWhy::kReleasing;
  int64_t lost_reason = -1;  // core::LostReason, where known
  int64_t took = kNotSeen;
  int64_t took_again = kNotSeen;  // back in a store that was rolled back, the last time
  int64_t freed = kNotSeen;
  int64_t freed_first = kNotSeen;  // before a store that was rolled back had it again
  FreedHow how = FreedHow::kReleased;
  int64_t downgraded = kNotSeen;  // SHARED from then on, as its client wished
  int64_t downgraded_unasked = kNotSeen;
  int64_t forced = kNotSeen;     // an administrator took it from then on
  int64_t came_back = kNotSeen;  // believed in again after its end
  int told_times = 0;
  int32_t next = -1;  // of the same lease

  // The latest that the store can have given it.
  int64_t Began() const { return took != kNotSeen ? took : told; }
};

// What became of a lease's request.
struct Fate {
  int64_t asked = kNotSeen;
  int64_t max_wait = -1;
  int64_t gave_up = kNotSeen;
  int64_t answered = kNotSeen;  // granted, refused, or nobody waits any more
  int64_t released = kNotSeen;  // the store has confirmed it
  int64_t yielded = kNotSeen;   // it counts on being alone no more
  int32_t first = -1;           // tenures
  int32_t last = -1;
  int32_t told = -1;  // the tenure it was last told of
};

struct Belief {
  int32_t lock;
  int32_t tenure;
  int64_t from;
  int64_t until;
};

struct Trouble {
  int64_t from;
  int64_t until;  // of the fault itself
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
  int32_t lock;  // -1: all
};

class Index {
 public:
  explicit Index(const History& history);

  const History& history;
  std::string contradiction;      // why this is no history; nothing else is valid then
  std::vector<Fate> fates;        // by lease
  std::vector<Tenure> tenures;    // in the order of their first sight
  std::vector<Belief> beliefs;    // by lock, then from; of one tenure they never overlap
  std::vector<Trouble> troubles;  // by from
  std::vector<Forgetting> forgettings;
  std::vector<Wrong> wronged;
  bool sees_store = false;
  int64_t healed = kForEver;
  int64_t quiet = kForEver;
  int64_t end = 0;  // the last record

  const LeaseTerms& TermsOf(int64_t lease) const { return history.leases[static_cast<size_t>(lease)]; }
  const LeaseTerms& TermsOf(const Tenure& tenure) const { return TermsOf(tenure.lease); }
  // As it is held at that time: what was asked for, or SHARED since it was converted.
  LeaseTerms TermsAt(const Tenure& tenure, int64_t at) const {
    LeaseTerms terms = TermsOf(tenure);
    if (tenure.downgraded != kNotSeen && tenure.downgraded <= at) terms.kind = HoldKind::kShared;
    return terms;
  }
  // The earliest that the store can have given it.
  int64_t BeganNotBefore(const Tenure& tenure) const {
    return tenure.took != kNotSeen ? tenure.took : fates[static_cast<size_t>(tenure.lease)].asked;
  }
  // Whether the store forgot this lock in [from, until].
  bool Forgot(int32_t lock, int64_t from, int64_t until) const;
  // Whether a fault can have made a broker miss, between those times, that a waiter of it was served, or its place be lost.
  bool MayBeDeaf(int32_t lock, int64_t from, int64_t until) const;
  // By how much the store's clock went back in [from, until]; what it holds lasts so much longer.
  int64_t WentBack(int64_t from, int64_t until) const;
  // Whether the store may have lost a token given at `first` and its clock shown less since, so that no order of tokens could
  // be kept until `second`.
  bool TokensMayRepeat(int32_t lock, int64_t first, int64_t second) const;
  // Between what is returned and `at` there is no fault, nor what one leaves behind for Aftermath(); kNotSeen: there was none.
  // Beyond `at`: that time is troubled itself. With `but`, that actor's own faults do not count.
  int64_t TroubledUntil(int64_t at, int32_t but = -1) const;
  // When its peers could know that `client`, which died at `at`, is gone: a dead machine sends no RST.
  int64_t DeathHeard(int32_t client, int64_t at) const;
  // How long a fault that is over may still be felt.
  int64_t Aftermath() const { return history.recovery_ns + history.longest_ttl_ns + history.validity_ns; }
  // How much a bound must allow that ends at that time: what was slow may still be on its way when all is healed.
  int64_t Slack(int64_t at) const {
    return history.calm || (at >= healed && at - healed >= history.slow_ns) ? history.slack_ns : history.slow_ns;
  }

 private:
  bool Fits(const Record& record);
  void Read(const Record& record, int32_t number);
  void ReadAsked(const Record& record, Fate& fate);
  void ReadBelief(const Record& record, Fate& fate);
  void ReadEnded(const Record& record, Fate& fate);
  void ReadFault(const Record& record);
  void Answer(Fate& fate, int64_t at) const {
    if (fate.answered == kNotSeen) fate.answered = at;
  }
  Tenure& TenureOf(const Record& record);

  std::vector<int32_t> open_belief_;  // by tenure: into beliefs
  std::vector<int64_t> trouble_end_;  // the latest end among the first n troubles, after-effects included
  int64_t now_ = kNotSeen;
};

}  // namespace distlock::sim
