// SPDX-License-Identifier: Apache-2.0
//
// I6 and I11: after the faults every request is served, and in the end nothing is left.
#include <algorithm>

#include "history/checks.h"

namespace distlock::sim {
namespace {

// How long a lock has been held in total, and how often it was granted, up to a time; by the store's records, or by
// belief.
struct Use {
  int64_t held = 0;
  int64_t since = kNotSeen;  // held now
  int64_t believed_until = kNotSeen;
  int holders = 0;  // by the store's records
  int grants = 0;

  int64_t HeldUntil(int64_t at) const {
    if (since == kNotSeen) return held;
    return held + (believed_until == kNotSeen ? at : std::min(at, believed_until)) - since;
  }
};

struct Start {
  int64_t at = kNotSeen;
  int64_t held = 0;
  int grants = 0;
};

// A wait after the faults may last as long as others held the lock meanwhile, and each hand-over may be delayed by a
// client's death.
class Waits {
 public:
  Waits(const Index& index, Report& report)
      : index_(index), report_(report), uses_(index.history.locks.size()), starts_(index.fates.size()) {
    if (index.history.calm) {
      from_ = kNotSeen;
    } else if (index.healed != kForEver) {
      from_ = std::max(index.healed, index.TroubledUntil(index.healed));
    }
  }

  void Run() {
    if (from_ == kForEver) return;
    for (const Record& record : index_.history.records) {
      if (record.at_ns >= from_ && !began_) Begin();
      if (record.lock < 0 || record.kind >= RecordKind::kFault) continue;
      Use& use = uses_[static_cast<size_t>(record.lock)];
      if (index_.sees_store) {
        Follow(record, RecordKind::kTook, RecordKind::kFreed, use);
      } else {
        Follow(record, RecordKind::kBelieves, RecordKind::kEnded, use);
      }
      const Fate& fate = index_.fates[static_cast<size_t>(record.lease)];
      if (record.kind == RecordKind::kAsked && began_)
        starts_[static_cast<size_t>(record.lease)] = {record.at_ns, use.HeldUntil(record.at_ns), use.grants};
      if (fate.answered == record.at_ns) Judge(record.lease, record.at_ns);
    }
    for (size_t lease = 0; lease < starts_.size(); ++lease) {
      if (index_.fates[lease].answered == kNotSeen)
        Judge(static_cast<int64_t>(lease), std::min(index_.end, index_.quiet));
    }
  }

 private:
  void Begin() {
    began_ = true;
    for (size_t lease = 0; lease < starts_.size(); ++lease) {
      const Fate& fate = index_.fates[lease];
      if (fate.asked == kNotSeen || fate.asked > from_ || (fate.answered != kNotSeen && fate.answered < from_))
        continue;
      const Use& use = uses_[static_cast<size_t>(index_.history.leases[lease].lock)];
      starts_[lease] = {std::max(from_, fate.asked), use.HeldUntil(from_), use.grants};
    }
  }

  static void Follow(const Record& record, RecordKind begins, RecordKind ends, Use& use) {
    if (record.kind == RecordKind::kTook) ++use.holders;
    if (record.kind == RecordKind::kFreed && --use.holders > 0) return;
    if (record.kind == begins) {
      if (use.since != kNotSeen && use.believed_until != kNotSeen && use.believed_until < record.at_ns) {
        use.held = use.HeldUntil(record.at_ns);
        use.since = kNotSeen;
      }
      if (use.since == kNotSeen) use.since = record.at_ns;
      if (begins == RecordKind::kBelieves) use.believed_until = std::max(record.until_ns, record.at_ns);
    }
    if (record.kind == ends && use.since != kNotSeen) {
      use.held = use.HeldUntil(record.at_ns);
      use.since = kNotSeen;
    }
    const RecordKind given = begins == RecordKind::kTook ? begins : RecordKind::kGranted;
    if (record.kind == given) ++use.grants;
  }

  void Judge(int64_t lease, int64_t at) {
    const Start& start = starts_[static_cast<size_t>(lease)];
    if (start.at == kNotSeen || start.at >= at) return;
    const LeaseTerms& terms = index_.history.leases[static_cast<size_t>(lease)];
    if (terms.together) return;  // another lock of its request may have been held
    const Use& use = uses_[static_cast<size_t>(terms.lock)];
    int64_t idle = at - start.at - (use.HeldUntil(at) - start.held);
    const int64_t hand_over = index_.history.validity_ns + index_.history.longest_ttl_ns + index_.history.slack_ns;
    const int64_t most = (use.grants - start.grants + 1) * hand_over;
    if (idle > most) idle -= HeldUnseen(terms.lock, start.at, at);
    if (idle <= most) return;
    report_.Add("I11", terms.lock, {lease}, at,
                report_.Lease(lease) + " waited for " + report_.Lock(terms.lock) + " from " + Report::At(start.at) +
                    " to " + Report::At(at) + " although nothing was broken and nobody held it for " +
                    Report::Span(idle) + " of that time, at most " + Report::Span(most) + " expected");
  }

  // How long requests for several locks, which take them one after the other and are told once, may have held this one
  // while they waited for another. Only the store's records would show it.
  int64_t HeldUnseen(int32_t lock, int64_t from, int64_t until) const {
    int64_t held = 0;
    for (size_t i = 0; i < index_.fates.size() && !index_.sees_store; ++i) {
      const Fate& fate = index_.fates[i];
      if (!index_.history.leases[i].together || index_.history.leases[i].lock != lock || fate.asked == kNotSeen)
        continue;
      const int64_t answered = fate.answered == kNotSeen ? until : fate.answered;
      held += std::max<int64_t>(0, std::min(until, answered) - std::max(from, fate.asked));
    }
    return held;
  }

  const Index& index_;
  Report& report_;
  std::vector<Use> uses_;
  std::vector<Start> starts_;
  int64_t from_ = kForEver;
  bool began_ = false;
};

void CheckAllAnswered(const Index& index, Report& report) {
  if (index.quiet == kForEver) return;
  for (size_t lease = 0; lease < index.fates.size(); ++lease) {
    const Fate& fate = index.fates[lease];
    if (fate.asked == kNotSeen || fate.answered != kNotSeen) continue;
    const auto number = static_cast<int64_t>(lease);
    report.Add("I11", index.history.leases[lease].lock, {number}, index.quiet,
               report.Lease(number) + " was never answered; it had asked for " +
                   report.Lock(index.history.leases[lease].lock) + " at " + Report::At(fate.asked));
  }
}

}  // namespace

void CheckLiveness(const Index& index, Report& report) {
  for (const Record& record : index.history.records) {
    if (record.kind != RecordKind::kLeft) continue;
    report.Add("I6", "left over at " + Report::At(record.at_ns) + ": " + std::to_string(record.value) + " " +
                         (record.note >= 0 && record.note < static_cast<int32_t>(index.history.notes.size())
                              ? index.history.notes[static_cast<size_t>(record.note)]
                              : std::string("of something")));
  }
  Waits(index, report).Run();
  CheckAllAnswered(index, report);
}

}  // namespace distlock::sim
