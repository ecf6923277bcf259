// SPDX-License-Identifier: Apache-2.0
//
// I4 and I5, by the store's own queue where it can be observed, else by the clients' requests and answers.
#include <algorithm>
#include <set>

#include "history/checks.h"

namespace distlock::sim {
namespace {

constexpr int64_t kUnplaced = kForEver;

struct Place {
  int64_t lease;
  int64_t arrival;
  int64_t since;
};

struct LockState {
  std::vector<Place> queue;       // few; in the order of their records
  std::vector<int64_t> holders;   // leases
  int64_t free_since = kNotSeen;  // when the last holder or waiter left
  int64_t told_by = kNotSeen;     // until when no waiter need know of that
};

// A fault of brokers so long before a place is lost may be its cause.
constexpr int64_t kMoveTime = 10'000'000'000;

// ADAPTIVE: newcomers may come first for so long.
constexpr int64_t kFairAfter = 100'000'000;

// Follows the store's queues through the records.
class StoreQueues {
 public:
  StoreQueues(const Index& index, Report& report)
      : index_(index),
        report_(report),
        locks_(index.history.locks.size()),
        arrivals_(index.fates.size(), kUnplaced),
        lost_(index.fates.size(), 0) {}

  void Run() {
    const std::vector<Record>& records = index_.history.records;
    for (size_t i = 0; i < records.size(); ++i) {
      const Record& record = records[i];
      switch (record.kind) {
        case RecordKind::kQueued:
          Queue(record);
          break;
        case RecordKind::kUnqueued:
          Leave(record);
          break;
        case RecordKind::kTook:
          Take(record, i);
          break;
        case RecordKind::kFreed:
          Free(record);
          break;
        case RecordKind::kDowngraded:
          Downgrade(record);
          break;
        default:
          break;
      }
    }
    for (size_t lock = 0; lock < locks_.size(); ++lock) {
      CheckServed(static_cast<int32_t>(lock), std::min(index_.end, index_.quiet), "never given to anybody");
    }
  }

 private:
  void Queue(const Record& record) {
    CheckArrival(record);
    CheckKept(record);
    locks_[static_cast<size_t>(record.lock)].queue.push_back({record.lease, record.value, record.at_ns});
    arrivals_[static_cast<size_t>(record.lease)] = record.value;
  }

  // I4: the store's arrival numbers are in the order of arrival, and a single try never queues.
  void CheckArrival(const Record& record) {
    if (index_.fates[static_cast<size_t>(record.lease)].max_wait == 0) {
      report_.Add("I4", record.lock, {record.lease}, record.at_ns,
                  report_.Lease(record.lease) + " asked to try once, and was queued for " + report_.Lock(record.lock));
    }
    for (const Place& place : locks_[static_cast<size_t>(record.lock)].queue) {
      if (place.arrival < record.value || place.since == record.at_ns || place.lease == record.lease) continue;
      // The request was granted to a session that its client had left: it waits in front until that is given back.
      if (std::ranges::count(locks_[static_cast<size_t>(record.lock)].holders, record.lease) > 0) continue;
      if (index_.TermsOf(record.lease).preferred && !index_.TermsOf(place.lease).preferred) continue;
      if (index_.Forgot(record.lock, place.since, record.at_ns)) continue;
      report_.Add("I4", record.lock, {place.lease, record.lease}, record.at_ns,
                  report_.Lease(record.lease) + " was queued for " + report_.Lock(record.lock) + " as number " +
                      std::to_string(record.value) + ", before " + report_.Lease(place.lease) + ", number " +
                      std::to_string(place.arrival) + " since " + Report::At(place.since));
    }
  }

  // I4: a request that goes on in another session has the place that it had.
  void CheckKept(const Record& record) {
    const int64_t before = arrivals_[static_cast<size_t>(record.lease)];
    if (!index_.TermsOf(record.lease).keeps_place || before == kUnplaced || before >= record.value) return;
    const Fate& fate = index_.fates[static_cast<size_t>(record.lease)];
    if (fate.answered != kNotSeen && fate.answered <= record.at_ns) return;
    // Its turn had come, for a session that its client had left: it waits in front until that is given back.
    const LockState& lock = locks_[static_cast<size_t>(record.lock)];
    const auto in_front = [&](const Place& place) {
      return place.lease != record.lease && place.arrival < record.value && !index_.TermsOf(place.lease).preferred;
    };
    if (std::ranges::count(lock.holders, record.lease) > 0 && std::ranges::none_of(lock.queue, in_front)) return;
    if (index_.MayLosePlace(record.lease, lost_[static_cast<size_t>(record.lease)] - kMoveTime, record.at_ns)) return;
    report_.Add("I4", record.lock, {record.lease}, record.at_ns,
                report_.Lease(record.lease) + " was number " + std::to_string(before) + " in the queue for " +
                    report_.Lock(record.lock) + ", and is number " + std::to_string(record.value) +
                    " now: its place was lost");
  }

  // A lease may have two places, one of them through a stream that has ended; that place goes first.
  void Leave(const Record& record) {
    std::vector<Place>& queue = locks_[static_cast<size_t>(record.lock)].queue;
    const auto place =
        std::find_if(queue.begin(), queue.end(), [&](const Place& one) { return one.lease == record.lease; });
    if (place != queue.end()) queue.erase(place);
    LockState& lock = locks_[static_cast<size_t>(record.lock)];
    lock.free_since = std::max(lock.free_since, record.at_ns);
    lost_[static_cast<size_t>(record.lease)] = record.at_ns;
  }

  void Free(const Record& record) {
    LockState& lock = locks_[static_cast<size_t>(record.lock)];
    const auto holder = std::ranges::find(lock.holders, record.lease);
    if (holder == lock.holders.end()) return;
    lock.holders.erase(holder);
    lock.free_since = record.at_ns;
    const LeaseTerms& terms = index_.history.leases[static_cast<size_t>(record.lease)];
    const int64_t delay = std::max(terms.lock_delay_ns, terms.min_hold_ns);
    // When a lease expires, or the lock is blocked first, brokers find out when they tend the queue: at the end of the
    // ttl that they know of.
    const Fate& fate = index_.fates[static_cast<size_t>(record.lease)];
    // A detached request whose grant ended before the client received it may have had another grant since, and released
    // that.
    const bool clean = fate.released != kNotSeen && fate.answered <= record.at_ns;
    const bool handed_on =
        static_cast<FreedHow>(record.code) == FreedHow::kReleased && (delay == 0 || (clean && terms.min_hold_ns == 0));
    if (!handed_on) lock.told_by = record.at_ns + delay + index_.history.longest_ttl_ns;
  }

  // From now on other readers may share the lock.
  void Downgrade(const Record& record) {
    shared_.insert(record.lease);
    LockState& lock = locks_[static_cast<size_t>(record.lock)];
    lock.free_since = std::max(lock.free_since, record.at_ns);
  }

  void Take(const Record& record, size_t number) {
    LockState& lock = locks_[static_cast<size_t>(record.lock)];
    CheckServed(record.lock, record.at_ns, "given only");
    CheckOrder(record, number, lock);
    CheckTold(record, number);
    Leave(record);
    lock.holders.push_back(record.lease);
    if (index_.TermsOf(record.lease).kind == HoldKind::kExclusive) lock.told_by = kNotSeen;
  }

  // I5: a waiter that is granted the lock learns of it, or, when the grant ended before that, gets a new place.
  void CheckTold(const Record& record, size_t number) {
    const Fate& fate = index_.fates[static_cast<size_t>(record.lease)];
    // A detached request may be between two calls, and one of several locks is reported when all are granted.
    const LeaseTerms& terms = index_.TermsOf(record.lease);
    if (terms.detached || terms.together || (fate.answered != kNotSeen && fate.answered < record.at_ns)) return;
    const int64_t told = fate.answered == kNotSeen ? std::min(index_.end, index_.quiet) : fate.answered;
    const int64_t due = std::max(record.at_ns, index_.TroubledUntil(told)) + index_.Slack(told);
    if (told <= due) return;
    const std::vector<Record>& records = index_.history.records;
    for (size_t i = number + 1; i < records.size() && records[i].at_ns <= due; ++i) {
      if (records[i].kind == RecordKind::kQueued && records[i].lease == record.lease) return;
    }
    report_.Add("I5", record.lock, {record.lease}, told,
                "the store gave " + report_.Lock(record.lock) + " to " + report_.Lease(record.lease) + " at " +
                    Report::At(record.at_ns) + ", but its client heard nothing of it until " + Report::At(told));
  }

  // I4
  void CheckOrder(const Record& record, size_t number, const LockState& lock) {
    int64_t own = kUnplaced;
    for (const Place& place : lock.queue) {
      if (place.lease == record.lease) own = std::min(own, place.arrival);
    }
    const bool newcomer = own == kUnplaced;
    if (own == kUnplaced && !index_.history.calm) own = arrivals_[static_cast<size_t>(record.lease)];
    const LeaseTerms& terms = index_.TermsOf(record.lease);
    if (own == kUnplaced && terms.preferred) own = 0;  // behind preferred waiters, before all others
    for (const Place& place : lock.queue) {
      if (place.lease == record.lease || place.arrival >= own || Excused(record, number, place)) continue;
      if (newcomer && MayBarge(terms, place, record.at_ns)) continue;
      report_.Add("I4", record.lock, {place.lease, record.lease}, record.at_ns,
                  report_.Lease(record.lease) + " got " + report_.Lock(record.lock) + " before " +
                      report_.Lease(place.lease) + ", which was number " + std::to_string(place.arrival) +
                      " in the queue" + (own == kUnplaced ? std::string() : " and it number " + std::to_string(own)));
    }
  }

  bool MayBarge(const LeaseTerms& terms, const Place& place, int64_t at) const {
    if (!terms.adaptive || !index_.TermsOf(place.lease).adaptive) return false;
    return !index_.history.calm || at - place.since <= kFairAfter + kFairAfter / 100;
  }

  // The waiter that was passed over was dead, or a fault may have made its broker lose its place or miss a notice.
  bool Excused(const Record& record, size_t number, const Place& place) const {
    if (index_.history.calm) return false;
    const std::vector<Record>& records = index_.history.records;
    for (size_t i = number; i < records.size() && records[i].at_ns == record.at_ns; ++i) {
      if (records[i].kind == RecordKind::kUnqueued && records[i].lease == place.lease) return true;
    }
    return index_.MayBeDeaf(record.lock, place.since, record.at_ns);
  }

  // Whether the lease could hold the lock beside the present holders.
  bool Fits(const LockState& lock, int64_t lease) const {
    const LeaseTerms& terms = index_.TermsOf(lease);
    uint64_t permits = terms.permits;
    for (const int64_t holder : lock.holders) {
      LeaseTerms has = index_.TermsOf(holder);
      if (shared_.contains(holder)) has.kind = HoldKind::kShared;
      if (!MayShare(terms, has)) return false;
      permits += index_.TermsOf(holder).permits;
    }
    return lock.holders.empty() || terms.kind == HoldKind::kShared || permits <= terms.limit;
  }

  // I5: the time since the lock was free for its first waiter.
  void CheckServed(int32_t number, int64_t at, const char* how) {
    const LockState& lock = locks_[static_cast<size_t>(number)];
    const auto first = std::min_element(lock.queue.begin(), lock.queue.end(),
                                        [](const Place& a, const Place& b) { return a.arrival < b.arrival; });
    if (first == lock.queue.end() || !Fits(lock, first->lease)) return;
    for (const Place& place : lock.queue) {
      if (!lock.holders.empty() && place.lease != first->lease) continue;
      const Fate& fate = index_.fates[static_cast<size_t>(place.lease)];
      if (fate.answered != kNotSeen && fate.answered < at) continue;
      const int64_t free = std::max(lock.free_since, lock.told_by);
      const int64_t due = std::max({free, place.since, index_.TroubledUntil(at)}) + index_.Slack(at);
      if (at <= due) continue;
      report_.Add("I5", number, {place.lease}, at,
                  report_.Lock(number) + " was free from " + Report::At(std::max(lock.free_since, place.since)) +
                      " on, " + report_.Lease(place.lease) + " was waiting, and it was " + how + " at " +
                      Report::At(at));
      return;
    }
  }

  const Index& index_;
  Report& report_;
  std::vector<LockState> locks_;
  std::vector<int64_t> arrivals_;  // by lease: its last arrival number
  std::vector<int64_t> lost_;      // by lease: when it had no place any more
  std::set<int64_t> shared_;       // leases that were downgraded
};

// I4 as clients see it, in runs without faults: no request is served before one that waited already when it was made.
void CheckFairness(const Index& index, Report& report) {
  std::vector<std::vector<int64_t>> waiting(index.history.locks.size());  // in the order of asking
  for (const Record& record : index.history.records) {
    if (record.kind == RecordKind::kAsked) {
      const LeaseTerms& terms = index.history.leases[static_cast<size_t>(record.lease)];
      // A repeated detached request may lose its place with its earlier call. Several locks in one request are queued
      // for one after the other, each when the locks before it are granted.
      if (!terms.detached && !terms.together && record.value < 0)
        waiting[static_cast<size_t>(record.lock)].push_back(record.lease);
    }
    if (record.kind != RecordKind::kGranted) continue;
    std::vector<int64_t>& others = waiting[static_cast<size_t>(record.lock)];
    std::erase_if(others, [&](int64_t lease) {
      const Fate& fate = index.fates[static_cast<size_t>(lease)];
      return lease == record.lease || (fate.answered != kNotSeen && fate.answered <= record.at_ns);
    });
    if (others.empty()) continue;
    const int64_t first = others.front();
    const int64_t since = std::max(index.fates[static_cast<size_t>(first)].asked, index.TroubledUntil(record.at_ns));
    const int64_t asked = index.fates[static_cast<size_t>(record.lease)].asked;
    if (since + index.Slack(record.at_ns) >= asked) continue;
    const LeaseTerms& terms = index.TermsOf(record.lease);
    if (terms.preferred || terms.adaptive) continue;
    // Neighbouring readers are served together, but may receive their grants at different times.
    const int64_t other = index.fates[static_cast<size_t>(first)].answered;
    if (MayShare(terms, index.TermsOf(first)) && other != kNotSeen && other <= record.at_ns + index.Slack(record.at_ns))
      continue;
    report.Add("I4", record.lock, {first, record.lease}, record.at_ns,
               report.Lease(record.lease) + " asked for " + report.Lock(record.lock) + " " +
                   Report::Span(asked - since) + " after " + report.Lease(first) + " had, and got it first");
  }
}

}  // namespace

void CheckQueues(const Index& index, Report& report) {
  if (index.sees_store) {
    StoreQueues(index, report).Run();
  } else {
    CheckClientQueues(index, report);
  }
  CheckFairness(index, report);
}

}  // namespace distlock::sim
