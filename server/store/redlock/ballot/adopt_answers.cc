// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/adopt_answers.h"

#include <algorithm>
#include <variant>

#include "store/redlock/ballot/candidate.h"

namespace distlock::store::ballot {

AdoptAnswers MergeAdopts(const core::StoreAdopt& adopt, std::span<const std::optional<Outcome>> answers,
                         uint32_t adopted, Instant sent, const Context& context) {
  using Result = core::AdoptDone::Result;
  AdoptAnswers found;
  core::AdoptDone& merged = found.merged;
  Duration hold_left = Duration::min();  // by max_hold, where it is most: what was promised ends by then
  for (NodeIndex node = 0; node < context.nodes.size(); ++node) {
    const auto& answer = answers[node];
    const auto* done = answer ? std::get_if<core::AdoptDone>(&*answer) : nullptr;
    if (done == nullptr) continue;
    if (done->result == Result::kAnotherMode || done->result == Result::kLater) found.refusal = done;
    if (done->result != Result::kAdopted) {
      found.gone += context.nodes.HasCountedSince(node, sent);
      continue;
    }
    merged.since = SinceOf(adopt.token);
    merged.ttl = done->ttl;
    merged.lock_delay = done->lock_delay;
    if (done->min_hold > Duration::zero()) merged.min_hold = done->min_hold;
    if ((adopted & Bit(node)) == 0) continue;
    merged.held_for = std::max(merged.held_for, done->held_for);
    if (done->max_hold > Duration::zero()) {
      merged.max_hold =
          merged.max_hold == Duration::zero() ? done->max_hold : std::min(merged.max_hold, done->max_hold);
      Duration left = done->max_hold - done->held_for;
      if (context.nodes.MayBeMistaken(node, done->since, adopt.token, context.now)) {
        left = std::min(left, done->max_hold - (context.now - context.nodes.Earliest(node, merged.since, context.now)));
      }
      hold_left = std::max(hold_left, left);
    }
  }
  // Servers may count from different moments, or for as long as a confirmation has promised.
  if (merged.max_hold > Duration::zero()) merged.held_for = std::max(merged.max_hold - hold_left, Duration::zero());
  return found;
}

}  // namespace distlock::store::ballot
