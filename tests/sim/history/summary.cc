// SPDX-License-Identifier: Apache-2.0
#include "history/summary.h"

#include <algorithm>
#include <numeric>

#include "history/checks.h"
#include "history/index.h"

namespace distlock::sim {
namespace {

Spread SpreadOf(std::vector<int64_t> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](size_t per_cent) { return values[std::min(values.size() - 1, values.size() * per_cent / 100)]; };
  return {static_cast<int64_t>(values.size()), at(50), at(99), values.back()};
}

void CountRecords(const History& history, Summary& summary) {
  for (const Record& record : history.records) {
    switch (record.kind) {
      case RecordKind::kRefused:
        ++summary.refusals[record.code % summary.refusals.size()];
        break;
      case RecordKind::kReleased:
        ++summary.releases;
        break;
      case RecordKind::kWrote:
        ++(record.code != 0 ? summary.writes : summary.rejected_writes);
        break;
      case RecordKind::kFault:
        ++summary.faults[record.code % summary.faults.size()];
        break;
      default:
        break;
    }
  }
}

// The times from the end of each belief to the next lease's belief.
void MeasureHandOvers(const Index& index, Summary& summary) {
  std::vector<int64_t> hand_offs;
  std::vector<int64_t> recoveries;
  const Belief* before = nullptr;
  for (const Belief& belief : index.beliefs) {
    const Tenure& next = index.tenures[static_cast<size_t>(belief.tenure)];
    if (before != nullptr && before->lock == belief.lock && before->tenure != belief.tenure) {
      const Tenure& last = index.tenures[static_cast<size_t>(before->tenure)];
      const int64_t given = index.sees_store ? next.Began() : belief.from;
      const bool together = MayShare(index.TermsOf(next), index.TermsAt(last, given));
      if (!together) summary.margin_min = std::min(summary.margin_min, given - before->until);
      if (index.fates[static_cast<size_t>(next.lease)].asked <= before->until && given >= before->until) {
        const bool released = last.ended != kNotSeen && last.why == EndedWhy::kReleasing;
        (released ? hand_offs : recoveries).push_back(given - before->until);
      }
    }
    if (before == nullptr || before->lock != belief.lock || belief.until > before->until) before = &belief;
  }
  summary.hand_offs = SpreadOf(std::move(hand_offs));
  summary.recoveries = SpreadOf(std::move(recoveries));
}

}  // namespace

int64_t Summary::FaultCount() const { return std::accumulate(faults.begin(), faults.end(), int64_t{0}); }

Summary Summarize(const History& history) {
  const Index index(history);
  Summary summary;
  summary.margin_min = kForEver;
  summary.records = static_cast<int64_t>(history.records.size());
  if (history.records.empty() || !index.contradiction.empty()) return summary;
  summary.lasted = history.records.back().at_ns - history.records.front().at_ns;
  CountRecords(history, summary);
  std::vector<int64_t> waits;
  for (const Tenure& tenure : index.tenures) {
    if (tenure.told == kNotSeen) continue;
    ++summary.grants;
    waits.push_back(tenure.told - index.fates[static_cast<size_t>(tenure.lease)].asked);
    if (!IsLoss(tenure)) continue;
    ++summary.losses;
    if (!IsJustified(index, tenure)) ++summary.false_losses;
  }
  summary.waits = SpreadOf(std::move(waits));
  MeasureHandOvers(index, summary);
  return summary;
}

}  // namespace distlock::sim
