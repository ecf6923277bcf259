// SPDX-License-Identifier: Apache-2.0
#include "history/report.h"

#include <algorithm>
#include <cstdio>

#include "history/names.h"

namespace distlock::sim {
namespace {

constexpr size_t kMostLines = 60;
constexpr int64_t kFaultsBefore = 5'000'000'000;  // a story shows faults since so long before its first record

bool SupersededBelief(const std::vector<const Record*>& shown, size_t i) {
  if (shown[i]->kind != RecordKind::kBelieves) return false;
  for (size_t next = i + 1; next < shown.size(); ++next) {
    if (shown[next]->lease != shown[i]->lease) continue;
    return shown[next]->kind == RecordKind::kBelieves && shown[next]->at_ns <= shown[i]->until_ns &&
           shown[next]->until_ns >= shown[i]->until_ns;
  }
  return false;
}

}  // namespace

bool Report::Wants(const char* invariant) const {
  const auto found = counts_.find(invariant);
  return found == counts_.end() || found->second < kMostViolations;
}

void Report::Add(const char* invariant, std::string what) {
  if (!Wants(invariant)) return;
  ++counts_[invariant];
  violations_.push_back({invariant, std::move(what)});
}

void Report::Add(const char* invariant, int32_t lock, std::initializer_list<int64_t> leases, int64_t until,
                 std::string what) {
  if (!Wants(invariant)) return;
  const std::vector<int64_t> about(leases);
  int64_t since = kForEver;
  for (const int64_t lease : about) {
    if (lease >= 0) since = std::min(since, index_.fates[static_cast<size_t>(lease)].asked);
  }
  std::vector<const Record*> shown;
  for (const Record& record : index_.history.records) {
    if (record.at_ns > until) break;
    if (Matters(record, lock, about, since)) shown.push_back(&record);
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i < shown.size(); ++i) {
    if (!SupersededBelief(shown, i)) lines.push_back(Line(*shown[i]));
  }
  std::string story = std::move(what);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines.size() > kMostLines && i == kMostLines / 3) {
      const size_t skipped = lines.size() - kMostLines;
      story += "\n  ... " + std::to_string(skipped) + " more ...";
      i += skipped;
    }
    story += "\n  " + lines[i];
  }
  Add(invariant, std::move(story));
}

bool Report::Matters(const Record& record, int32_t lock, const std::vector<int64_t>& leases, int64_t since) const {
  switch (record.kind) {
    case RecordKind::kFault:
      return record.at_ns >= since - std::min(since, kFaultsBefore) && (record.lock < 0 || record.lock == lock);
    case RecordKind::kForgot:
      return record.at_ns >= since && (record.lock < 0 || record.lock == lock);
    case RecordKind::kHealed:
    case RecordKind::kQuiet:
      return record.at_ns >= since;
    case RecordKind::kLeft:
      return false;
    default:
      return std::find(leases.begin(), leases.end(), record.lease) != leases.end();
  }
}

std::string Report::At(int64_t at_ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f s", static_cast<double>(at_ns) / 1e9);
  return text;
}

std::string Report::Span(int64_t ns) {
  char text[32];
  const double us = static_cast<double>(ns) / 1e3;
  if (us < 1e3) {
    std::snprintf(text, sizeof text, "%.3f us", us);
  } else if (us < 1e6) {
    std::snprintf(text, sizeof text, "%.3f ms", us / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.3f s", us / 1e6);
  }
  return text;
}

std::string Report::Lock(int32_t lock) const {
  return lock < 0 ? "all locks" : '"' + index_.history.locks[static_cast<size_t>(lock)] + '"';
}

std::string Report::Lease(int64_t lease) const {
  if (lease < 0) return "nobody";
  const LeaseTerms& terms = index_.history.leases[static_cast<size_t>(lease)];
  const bool known = terms.client >= 0 && terms.client < static_cast<int32_t>(index_.history.actors.size());
  return (known ? index_.history.actors[static_cast<size_t>(terms.client)].name : std::string("a client")) +
         "'s lease " + std::to_string(lease);
}

std::string Report::Line(const Record& record) const {
  const std::string actor =
      record.actor >= 0 ? index_.history.actors[static_cast<size_t>(record.actor)].name : std::string("somebody");
  const std::string token = "token " + std::to_string(record.token);
  std::string text = At(record.at_ns) + "  " + (record.lease >= 0 ? Lease(record.lease) : actor) + " ";
  switch (record.kind) {
    case RecordKind::kAsked: {
      const LeaseTerms& terms = index_.history.leases[static_cast<size_t>(record.lease)];
      text += "asked for " + Lock(record.lock) + ", ttl " + Span(terms.ttl_ns);
      text += record.value == 0 ? ", one try" : record.value > 0 ? ", waits at most " + Span(record.value) : "";
      if (terms.lock_delay_ns > 0) text += ", lock_delay " + Span(terms.lock_delay_ns);
      if (terms.max_hold_ns > 0) text += ", max_hold " + Span(terms.max_hold_ns);
      if (terms.min_hold_ns > 0) text += ", min_hold " + Span(terms.min_hold_ns);
      return text + (terms.detached ? ", detached" : "") + (terms.risky ? ", on_disconnect RELEASE" : "");
    }
    case RecordKind::kGaveUp:
      return text + "gave up";
    case RecordKind::kMovedOn:
      return text + "asks another broker";
    case RecordKind::kRefused:
      return text + "was refused: " + std::string(NameOf(RefusalNames(), record.code));
    case RecordKind::kGranted:
      return text + "was told of its grant, " + token;
    case RecordKind::kBelieves:
      return text + "believes until " + At(record.until_ns);
    case RecordKind::kEnded: {
      text += "believes no more: " + std::string(NameOf(EndedNames(), record.code));
      return text + (record.value > 0 ? " " + std::string(NameOf(LostNames(), record.value - 1)) : "");
    }
    case RecordKind::kReleased:
      return text + "heard of its release: " + std::string(NameOf(ReleaseNames(), record.code));
    case RecordKind::kWrote:
      return text + "wrote with " + token + (record.code != 0 ? ", accepted" : ", rejected");
    case RecordKind::kYields:
      return text + "is about to ask to hold SHARED";
    case RecordKind::kQueued:
      return text + "is queued in the store, number " + std::to_string(record.value);
    case RecordKind::kUnqueued:
      return text + "is out of the store's queue";
    case RecordKind::kTook:
      return text + "holds in the store, " + token;
    case RecordKind::kFreed:
      return text + "holds no more in the store: " + std::string(NameOf(FreedNames(), record.code));
    case RecordKind::kDowngraded:
      return text + "holds SHARED in the store from now on";
    case RecordKind::kForced:
      return text + "is to lose it: an administrator takes it";
    case RecordKind::kFault: {
      text = At(record.at_ns) + "  FAULT " + std::string(NameOf(FaultNames(), record.code)) + " of " + actor;
      return text + (record.value != 0 ? ", " + Span(record.value) : "");
    }
    case RecordKind::kForgot:
      return At(record.at_ns) + "  the store forgot " + Lock(record.lock);
    case RecordKind::kHealed:
      return At(record.at_ns) + "  all is healed";
    case RecordKind::kQuiet:
      return At(record.at_ns) + "  all is quiet";
    case RecordKind::kLeft:
      break;
  }
  return text + "?";
}

std::vector<Violation> Report::Take() {
  std::stable_sort(violations_.begin(), violations_.end(), [](const Violation& a, const Violation& b) {
    return a.invariant.size() != b.invariant.size() ? a.invariant.size() < b.invariant.size()
                                                    : a.invariant < b.invariant;
  });
  return std::move(violations_);
}

}  // namespace distlock::sim
