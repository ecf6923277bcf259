// SPDX-License-Identifier: Apache-2.0
//
// I2 and I12: fencing tokens.
#include <algorithm>

#include "history/checks.h"

namespace distlock::sim {
namespace {

std::string Token(const Tenure& tenure) { return "token " + std::to_string(tenure.token); }

void TellOrder(const Index& index, const Tenure& first, const Tenure& second, const char* how, Report& report) {
  if (!report.Wants("I2") || index.TokensMayRepeat(first.lock, first.Began(), second.Began())) return;
  report.Add("I2", first.lock, {first.lease, second.lease}, std::max({second.told, second.took, second.from}),
             report.Lease(second.lease) + how + " " + report.Lock(first.lock) + " after " + report.Lease(first.lease) +
                 ", but its " + Token(second) + " is not greater than " + Token(first));
}

// The greatest token so far of each lock.
class Greatest {
 public:
  explicit Greatest(const Index& index) : index_(index), by_lock_(index.history.locks.size(), -1) {}
  const Tenure* Of(int32_t lock) const {
    const int32_t found = by_lock_[static_cast<size_t>(lock)];
    return found < 0 ? nullptr : &index_.tenures[static_cast<size_t>(found)];
  }
  int32_t NumberOf(int32_t lock) const { return by_lock_[static_cast<size_t>(lock)]; }
  void Saw(const Tenure& tenure) {
    const Tenure* known = Of(tenure.lock);
    if (known != nullptr && known->token >= tenure.token) return;
    by_lock_[static_cast<size_t>(tenure.lock)] = static_cast<int32_t>(&tenure - index_.tenures.data());
  }

 private:
  const Index& index_;
  std::vector<int32_t> by_lock_;
};

// I1 by the store's records: the leases that hold the lock beside `tenure`.
void CheckTaken(const Index& index, std::vector<const Tenure*>& holders, const Tenure& tenure, int64_t at,
                Report& report) {
  const LeaseTerms& terms = index.TermsOf(tenure);
  uint64_t permits = terms.permits;
  for (const Tenure* other : holders) {
    if (other == &tenure) continue;
    permits += index.TermsOf(*other).permits;
    if (MayShare(terms, index.TermsAt(*other, at)) && (terms.kind == HoldKind::kShared || permits <= terms.limit))
      continue;
    report.Add("I1", tenure.lock, {other->lease, tenure.lease}, at,
               "the store gave " + report.Lock(tenure.lock) + " to " + report.Lease(tenure.lease) + " while " +
                   report.Lease(other->lease) + " held it");
  }
  if (std::find(holders.begin(), holders.end(), &tenure) == holders.end()) holders.push_back(&tenure);
}

// Tokens grow in the order of the store's grants, and in real time: a request made after another client received its
// grant gets a greater token.
void CheckGrants(const Index& index, Report& report) {
  Greatest taken(index);
  Greatest told(index);
  std::vector<int32_t> told_before(index.fates.size(), -1);  // by lease: the greatest token told when it asked
  std::vector<std::vector<const Tenure*>> holders(index.history.locks.size());
  // By lock: the lease whose hold ended last, by the clock of the node that had the slot then. It is back if the next
  // node's clock is behind.
  std::vector<int64_t> expired(index.history.locks.size(), -1);
  for (const Record& record : index.history.records) {
    switch (record.kind) {
      case RecordKind::kAsked: {
        int32_t& before = told_before[static_cast<size_t>(record.lease)];
        if (before < 0) before = told.NumberOf(record.lock);
        break;
      }
      case RecordKind::kTook: {
        const Tenure& tenure = index.Named(record);
        const Tenure* first = taken.Of(record.lock);
        if (record.at_ns == tenure.took) {
          if (first != nullptr && first->token >= tenure.token && first != &tenure) {
            TellOrder(index, *first, tenure, " was given", report);
          }
        } else if (index.history.slots_move && expired[static_cast<size_t>(record.lock)] == record.lease) {
          // The lock was free meanwhile.
        } else if (!index.Forgot(record.lock, tenure.took, record.at_ns)) {
          report.Add("I2", record.lock, {record.lease}, record.at_ns,
                     report.Lease(record.lease) + " was given " + report.Lock(record.lock) + " a second time with " +
                         Token(tenure));
        }
        CheckTaken(index, holders[static_cast<size_t>(record.lock)], tenure, record.at_ns, report);
        taken.Saw(tenure);
        expired[static_cast<size_t>(record.lock)] = -1;
        break;
      }
      case RecordKind::kFreed: {
        const bool by_clock = static_cast<FreedHow>(record.code) == FreedHow::kExpired;
        expired[static_cast<size_t>(record.lock)] = by_clock ? record.lease : -1;
        std::erase_if(holders[static_cast<size_t>(record.lock)],
                      [&](const Tenure* one) { return one->lease == record.lease; });
        break;
      }
      case RecordKind::kGranted: {
        const Tenure& tenure = index.Named(record);
        const int32_t number = told_before[static_cast<size_t>(record.lease)];
        const Tenure* before = number < 0 ? nullptr : &index.tenures[static_cast<size_t>(number)];
        // A kept lock has tokens of the time when the store gave it, which may have forgotten it since.
        if (before != nullptr && before->token >= tenure.token && before->lease != record.lease &&
            !index.Forgot(record.lock, index.BeganNotBefore(tenure), before->Began())) {
          TellOrder(index, *before, tenure, " asked for", report);
        }
        told.Saw(tenure);
        break;
      }
      default:
        break;
    }
  }
}

void CheckBeliefOrder(const Index& index, Report& report) {
  const Tenure* greatest = nullptr;
  for (const Belief& belief : index.beliefs) {
    const Tenure& tenure = index.tenures[static_cast<size_t>(belief.tenure)];
    if (greatest == nullptr || greatest->lock != tenure.lock || tenure.token > greatest->token) {
      greatest = &tenure;
    } else if (IsTakenUntold(index, tenure) || (index.TermsOf(tenure).risky && !index.history.calm)) {
      // A client may receive its grant after its broker has seen the stream end and the lock has gone to another
      // client.
    } else if (greatest->lease != tenure.lease && belief.from == tenure.from &&
               !MayShare(index.TermsOf(*greatest), index.TermsOf(tenure)) &&
               !index.Forgot(tenure.lock, index.BeganNotBefore(tenure), greatest->Began())) {
      TellOrder(index, *greatest, tenure, " believed in", report);
    }
  }
}

void CheckUnique(const Index& index, Report& report) {
  std::vector<const Tenure*> all;
  all.reserve(index.tenures.size());
  for (const Tenure& tenure : index.tenures) all.push_back(&tenure);
  std::sort(all.begin(), all.end(), [](const Tenure* a, const Tenure* b) {
    if (a->lock != b->lock) return a->lock < b->lock;
    return a->token != b->token ? a->token < b->token : a->lease < b->lease;
  });
  for (size_t i = 1; i < all.size(); ++i) {
    const Tenure& first = *all[i - 1];
    const Tenure& second = *all[i];
    if (first.lock != second.lock || first.token != second.token) continue;
    if (index.TokensMayRepeat(first.lock, std::min(first.Began(), second.Began()),
                              std::max(first.Began(), second.Began()))) {
      continue;
    }
    report.Add("I2", first.lock, {first.lease, second.lease}, std::max(first.Began(), second.Began()),
               report.Lease(first.lease) + " and " + report.Lease(second.lease) + " were both given " +
                   report.Lock(first.lock) + " with " + Token(first));
  }
}

// I12: a lease gets one grant, or the same token again, or a new token after the store had freed the lock.
void CheckOneToken(const Index& index, const Fate& fate, Report& report) {
  const Tenure* before = nullptr;
  for (int32_t i = fate.first; i >= 0; i = index.tenures[static_cast<size_t>(i)].next) {
    const Tenure& tenure = index.tenures[static_cast<size_t>(i)];
    if (tenure.told == kNotSeen) continue;
    const bool detached = index.TermsOf(tenure).detached;
    if (!detached && (before != nullptr || tenure.told_times > 1)) {
      report.Add("I12", tenure.lock, {tenure.lease}, tenure.told,
                 report.Lease(tenure.lease) + " was told of a grant more than once");
    } else if (before != nullptr) {
      const bool over = index.sees_store ? before->freed_first != kNotSeen && before->freed_first <= tenure.Began()
                                         : before->until == kNotSeen || before->until <= tenure.told;
      if (!over) {
        report.Add("I12", tenure.lock, {tenure.lease}, tenure.told,
                   report.Lease(tenure.lease) + " was told " + Token(tenure) + " while its grant with " +
                       Token(*before) + " lasted");
      }
    }
    before = &tenure;
  }
}

}  // namespace

void CheckTokens(const Index& index, Report& report) {
  CheckGrants(index, report);
  CheckBeliefOrder(index, report);
  CheckUnique(index, report);
  for (const Fate& fate : index.fates) CheckOneToken(index, fate, report);
}

}  // namespace distlock::sim
