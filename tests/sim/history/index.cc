// SPDX-License-Identifier: Apache-2.0
#include "history/index.h"

#include <algorithm>
#include <limits>
#include <set>

#include "core/types.h"

namespace distlock::sim {
namespace {

constexpr int64_t kClocksApart = 100'000'000;  // how far the clocks of two servers may differ

}  // namespace

Index::Index(const History& the_history) : history(the_history), fates(the_history.leases.size()) {
  tenures.reserve(fates.size());
  open_belief_.reserve(fates.size());
  beliefs.reserve(fates.size());
  int32_t number = 0;
  for (const Record& record : history.records) {
    if (!Fits(record)) return;
    Read(record, number++);
    now_ = end = record.at_ns;
  }
  std::erase_if(beliefs, [](const Belief& belief) { return belief.until <= belief.from; });
  std::stable_sort(beliefs.begin(), beliefs.end(), [](const Belief& a, const Belief& b) {
    return a.lock != b.lock ? a.lock < b.lock : a.from < b.from;
  });
}

bool Index::Fits(const Record& record) {
  auto wrong = [&](const char* what) {
    contradiction = "record " + std::to_string(&record - history.records.data()) + " " + what;
    return false;
  };
  if (record.at_ns < now_) return wrong("is earlier than the one before it");
  if (record.actor >= static_cast<int32_t>(history.actors.size())) return wrong("names an unknown actor");
  if (record.lock >= static_cast<int32_t>(history.locks.size())) return wrong("names an unknown lock");
  if (record.kind >= RecordKind::kFault) return true;
  if (record.lease < 0 || record.lease >= static_cast<int64_t>(fates.size())) return wrong("names an unknown lease");
  const LeaseTerms& terms = history.leases[static_cast<size_t>(record.lease)];
  if (record.lock < 0 || terms.lock != record.lock) return wrong("names another lock than its lease's");
  if (fates[static_cast<size_t>(record.lease)].asked == kNotSeen && record.kind != RecordKind::kAsked) {
    return wrong("is about a lease that nobody has asked for");
  }
  const bool has_token = record.kind == RecordKind::kGranted || record.kind == RecordKind::kTook;
  if (has_token && record.token == 0) return wrong("has no token");
  return true;
}

void Index::Read(const Record& record, int32_t number) {
  Fate* fate = record.kind < RecordKind::kFault ? &fates[static_cast<size_t>(record.lease)] : nullptr;
  switch (record.kind) {
    case RecordKind::kAsked:
      return ReadAsked(record, *fate);
    case RecordKind::kGaveUp:
      fate->gave_up = record.at_ns;
      return Answer(*fate, record.at_ns);
    case RecordKind::kMovedOn:
      fate->moved_on = record.at_ns;
      return;
    case RecordKind::kRefused:
      return Answer(*fate, record.at_ns);
    case RecordKind::kGranted:
      return ReadGranted(record, *fate);
    case RecordKind::kBelieves:
      return ReadBelief(record, *fate);
    case RecordKind::kEnded:
      return ReadEnded(record, *fate);
    case RecordKind::kReleased:
      if (static_cast<core::ReleaseOutcome>(record.code) == core::ReleaseOutcome::kReleased)
        fate->released = record.at_ns;
      return;
    case RecordKind::kWrote:
      return ReadWrote(record, number, *fate);
    case RecordKind::kYields:
      if (fate->yielded == kNotSeen) fate->yielded = record.at_ns;
      return;
    case RecordKind::kQueued:
    case RecordKind::kUnqueued:
      sees_store = true;
      return;
    case RecordKind::kTook:
      return ReadTook(record);
    case RecordKind::kFreed:
      return ReadFreed(record, *fate);
    case RecordKind::kDowngraded:
    case RecordKind::kForced:
      return ReadTaken(record, *fate);
    case RecordKind::kFault:
      return ReadFault(record);
    case RecordKind::kForgot:
      forgettings.push_back(
          {record.at_ns, record.until_ns > 0 ? record.until_ns : std::numeric_limits<int64_t>::max(), record.lock});
      return;
    case RecordKind::kHealed:
      healed = std::min(healed, record.at_ns);
      return;
    case RecordKind::kQuiet:
      quiet = std::min(quiet, record.at_ns);
      return;
    case RecordKind::kLeft:
      return;
  }
}

void Index::ReadGranted(const Record& record, Fate& fate) {
  Answer(fate, record.at_ns);
  Tenure& tenure = TenureOf(record);
  if (tenure.told == kNotSeen) tenure.told = record.at_ns;
  ++tenure.told_times;
  fate.told = static_cast<int32_t>(&tenure - tenures.data());
}

void Index::ReadWrote(const Record& record, int32_t number, const Fate& fate) {
  if (record.code != 0 || fate.told < 0) return;
  // A belief under the token of an earlier grant may arrive late.
  if (tenures[static_cast<size_t>(fate.told)].token != record.token) return;
  const int32_t open = open_belief_[static_cast<size_t>(fate.told)];
  if (open >= 0 && beliefs[static_cast<size_t>(open)].until > record.at_ns) wronged.push_back({number, fate.told});
}

void Index::ReadTaken(const Record& record, const Fate& fate) {
  // Where the store is not observed, an administrator may know of a grant before its client does; and of a greater
  // token, when the same request came once more: then its client loses what it believes in under the lesser one.
  if (!sees_store && record.token != 0) {
    TenureOf(record);
    for (int32_t i = fate.first; i >= 0; i = tenures[static_cast<size_t>(i)].next) {
      Tenure& tenure = tenures[static_cast<size_t>(i)];
      if (tenure.token <= record.token && tenure.forced == kNotSeen) tenure.forced = record.at_ns;
    }
    return;
  }
  for (int32_t i = fate.first; i >= 0; i = tenures[static_cast<size_t>(i)].next) {
    Tenure& tenure = tenures[static_cast<size_t>(i)];
    if (tenure.took == kNotSeen || tenure.freed != kNotSeen || IsOfAnother(record, tenure)) continue;
    int64_t& since = record.kind == RecordKind::kForced ? tenure.forced
                     : fate.yielded == kNotSeen         ? tenure.downgraded_unasked
                                                        : tenure.downgraded;
    if (since == kNotSeen) since = record.at_ns;
  }
}

void Index::ReadTook(const Record& record) {
  sees_store = true;
  Tenure& tenure = TenureOf(record);
  (tenure.took == kNotSeen ? tenure.took : tenure.took_again) = record.at_ns;
  tenure.freed = kNotSeen;
}

void Index::ReadFreed(const Record& record, const Fate& fate) {
  sees_store = true;
  for (int32_t i = fate.first; i >= 0; i = tenures[static_cast<size_t>(i)].next) {
    Tenure& tenure = tenures[static_cast<size_t>(i)];
    if (tenure.took == kNotSeen || tenure.freed != kNotSeen || IsOfAnother(record, tenure)) continue;
    tenure.freed = record.at_ns;
    if (tenure.freed_first == kNotSeen) tenure.freed_first = record.at_ns;
    tenure.how = static_cast<FreedHow>(record.code);
  }
}

void Index::ReadAsked(const Record& record, Fate& fate) {
  if (fate.asked != kNotSeen) return;
  fate.asked = record.at_ns;
  fate.max_wait = record.value;
}

void Index::ReadBelief(const Record& record, Fate& fate) {
  if (fate.told < 0) {
    if (contradiction.empty())
      contradiction = "lease " + std::to_string(record.lease) + " is believed in before it is told";
    return;
  }
  Tenure& tenure = tenures[static_cast<size_t>(fate.told)];
  const int64_t until = std::max(record.until_ns, record.at_ns);
  if (tenure.ended != kNotSeen && until > record.at_ns) {
    if (tenure.came_back == kNotSeen) tenure.came_back = record.at_ns;
    return;
  }
  int32_t& open = open_belief_[static_cast<size_t>(fate.told)];
  if (open >= 0 && beliefs[static_cast<size_t>(open)].until >= record.at_ns) {
    beliefs[static_cast<size_t>(open)].until = until;
  } else {
    open = static_cast<int32_t>(beliefs.size());
    beliefs.push_back({record.lock, fate.told, record.at_ns, until});
  }
  if (tenure.from == kNotSeen) tenure.from = record.at_ns;
  tenure.until = until;
}

void Index::ReadEnded(const Record& record, Fate& fate) {
  Answer(fate, record.at_ns);
  if (fate.told < 0) return;
  Tenure& tenure = tenures[static_cast<size_t>(fate.told)];
  if (tenure.ended != kNotSeen) return;
  tenure.ended = record.at_ns;
  tenure.why = static_cast<EndedWhy>(record.code);
  if (tenure.why == EndedWhy::kLost) tenure.lost_reason = record.value - 1;
  if (tenure.until == kNotSeen || tenure.until <= record.at_ns) return;
  tenure.until = record.at_ns;
  beliefs[static_cast<size_t>(open_belief_[static_cast<size_t>(fate.told)])].until = record.at_ns;
}

void Index::ReadFault(const Record& record) {
  const auto kind = static_cast<FaultKind>(record.code);
  const int64_t lasts = kind == FaultKind::kStoreClock ? 0 : std::max<int64_t>(record.value, 0);
  troubles.push_back({record.at_ns, record.at_ns + lasts, kind, record.actor, record.lock, record.value});
  const int64_t over = record.at_ns + lasts + Aftermath();
  trouble_end_.push_back(trouble_end_.empty() ? over : std::max(over, trouble_end_.back()));
}

// A request that was sent again may be granted twice for a while, to two of its tries. Not each record says which.
bool Index::IsOfAnother(const Record& record, const Tenure& tenure) {
  return record.token != 0 && record.token != tenure.token;
}

Tenure& Index::TenureOf(const Record& record) {
  Fate& fate = fates[static_cast<size_t>(record.lease)];
  for (int32_t i = fate.first; i >= 0; i = tenures[static_cast<size_t>(i)].next) {
    if (tenures[static_cast<size_t>(i)].token == record.token) return tenures[static_cast<size_t>(i)];
  }
  const auto added = static_cast<int32_t>(tenures.size());
  if (fate.first < 0) {
    fate.first = added;
  } else {
    tenures[static_cast<size_t>(fate.last)].next = added;
  }
  fate.last = added;
  open_belief_.push_back(-1);
  Tenure& tenure = tenures.emplace_back();
  tenure.lease = record.lease;
  tenure.lock = record.lock;
  tenure.token = record.token;
  return tenure;
}

bool Index::Forgot(int32_t lock, int64_t from, int64_t until) const {
  for (const Forgetting& one : forgettings) {
    if (one.at >= from && one.at <= until && (one.lock < 0 || one.lock == lock)) return true;
  }
  return false;
}

bool Index::MayBeDeaf(int32_t lock, int64_t from, int64_t until) const {
  for (const Trouble& trouble : troubles) {
    if (trouble.from > until) break;
    switch (trouble.kind) {
      case FaultKind::kClientKilled:
      case FaultKind::kClientPaused:
      case FaultKind::kClientClock:
      case FaultKind::kStoreFull:
      case FaultKind::kScriptsFlushed:
        continue;
      default:
        break;
    }
    if (trouble.until + Aftermath() >= from) return true;
  }
  return Forgot(lock, from, until);
}

bool Index::MayLosePlace(int64_t lease, int64_t from, int64_t until) const {
  std::set<int32_t> drained;
  for (const Trouble& trouble : troubles) {
    if (trouble.from > until) break;
    if (trouble.kind == FaultKind::kClientKilled || trouble.kind == FaultKind::kScriptsFlushed) continue;
    if (trouble.kind == FaultKind::kBrokerDrained) {
      if (trouble.until >= from) drained.insert(trouble.actor);
    } else if (trouble.until + Aftermath() >= from) {
      return true;
    }
  }
  // Somewhere else must be a broker to go to.
  const auto is_broker = [](const Actor& actor) { return actor.kind == Actor::Kind::kBroker; };
  const auto brokers = std::ranges::count_if(history.actors, is_broker);
  return std::ssize(drained) >= brokers || Forgot(TermsOf(lease).lock, from, until);
}

int64_t Index::WentBack(int64_t from, int64_t until) const {
  int64_t back = 0;
  int64_t ahead = 0;  // of the other servers' clocks
  for (const Trouble& trouble : troubles) {
    if (trouble.from > until) break;
    if (trouble.kind == FaultKind::kStoreClock) {
      ahead += std::max<int64_t>(trouble.value, 0);
      if (trouble.from >= from) back += std::max<int64_t>(-trouble.value, 0);
    }
    if (trouble.kind == FaultKind::kFailover && trouble.from >= from) back += ahead;
  }
  return back;
}

bool Index::TokensMayRepeat(int32_t lock, int64_t first, int64_t second) const {
  bool went_back = false;
  bool stepped = false;
  for (const Trouble& trouble : troubles) {
    if (trouble.from > second) break;
    if (trouble.kind == FaultKind::kStoreClock) {
      stepped = true;
      went_back |= trouble.value < 0;
    }
  }
  for (const Trouble& trouble : troubles) {
    if (trouble.from > second) break;
    if (trouble.until < first || (trouble.lock >= 0 && trouble.lock != lock)) continue;
    // The new server's clock was not stepped with the old server's, and does not agree with it to the microsecond.
    if (trouble.kind == FaultKind::kFailover && (stepped || trouble.from - kClocksApart < first)) return true;
    if (went_back && (trouble.kind == FaultKind::kStoreEmptied || trouble.kind == FaultKind::kKeyDeleted ||
                      trouble.kind == FaultKind::kFailover)) {
      return true;
    }
  }
  return false;
}

int64_t Index::TroubledUntil(int64_t at, int32_t but) const {
  const auto after = std::upper_bound(troubles.begin(), troubles.end(), at,
                                      [](int64_t time, const Trouble& trouble) { return time < trouble.from; });
  const auto count = static_cast<size_t>(after - troubles.begin());
  if (but < 0) return count == 0 ? kNotSeen : trouble_end_[count - 1];
  int64_t latest = kNotSeen;
  for (size_t i = 0; i < count; ++i) {
    if (troubles[i].actor != but) latest = std::max(latest, troubles[i].until + Aftermath());
  }
  return latest;
}

}  // namespace distlock::sim
