// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/renewals.h"

#include <algorithm>
#include <string>
#include <utility>

namespace distlock::store::ballot {

using core::RenewResult;

void Renewals::Renew(core::StoreRenew&& in) {
  const uint64_t id = ++last_round_;
  auto& slot = rounds_[id];
  slot = std::make_unique<Round>();
  Round& round = *slot;
  round.serial = id;
  round.op = in.op;
  round.sent = context_.now;
  Duration shortest = std::chrono::hours(1);
  for (const core::RenewItem& item : in.items) {
    shortest = std::min(shortest, item.ttl);
    round.items.push_back({.asked = item});
  }
  for (NodeIndex node = 0; node < context_.nodes.size(); ++node) {
    if (!context_.nodes.IsUp(node)) continue;
    round.waiting |= Bit(node);
    context_.Send({.by = Sent::By::kRenewal, .node = node, .claim = {}, .id = id},
                  Plain{core::StoreRenew{.op = 0, .items = in.items}});
  }
  timers_.Set(round, context_.now + std::min<Duration>(context_.config.node_timeout, shortest / 10));
  if (round.waiting != 0) return;
  TryAnswer(round, /*at_once=*/true);
  timers_.Cancel(round);
  rounds_.erase(id);
}

void Renewals::OnReply(const Sent& sent, const Outcome& outcome) {
  const auto found = rounds_.find(sent.id);
  if (found == rounds_.end()) return;
  Round& round = *found->second;
  round.waiting &= ~Bit(sent.node);
  const auto* done = std::get_if<core::RenewDoneBatch>(&outcome);
  if (done != nullptr && done->results.size() == round.items.size()) Note(round, sent.node, *done);
  TryAnswer(round, round.waiting == 0);
  Repair(round);
  if (round.waiting != 0) return;
  timers_.Cancel(round);
  rounds_.erase(found);
}

void Renewals::Note(Round& round, NodeIndex node, const core::RenewDoneBatch& done) {
  const bool counts = context_.nodes.HasCountedSince(node, round.sent);
  const bool has_hold = done.hold_left.size() == round.items.size();
  round.has_hold |= has_hold;
  for (size_t i = 0; i < round.items.size(); ++i) {
    Item& item = round.items[i];
    const RenewResult result = done.results[i];
    const bool is_renewed = result == RenewResult::kRenewed;
    Duration& least = is_renewed && counts ? item.hold_left : item.refused_hold_left;
    if (has_hold) least = std::min(least, done.hold_left[i]);
    if (is_renewed) {
      if (counts) item.renewed |= Bit(node);
      continue;
    }
    item.lacks |= Bit(node);
    if (counts) item.gone |= Bit(node);
    item.is_anothers |= result == RenewResult::kAnothers;
    item.is_moved |= result == RenewResult::kMoved;
  }
}

RenewResult Renewals::ResultOf(const Item& item) const {
  const size_t quorum = context_.nodes.quorum();
  if (static_cast<size_t>(__builtin_popcount(item.renewed)) >= quorum) return RenewResult::kRenewed;
  if (static_cast<size_t>(__builtin_popcount(item.gone)) <= context_.nodes.size() - quorum) {
    return RenewResult::kUnanswered;
  }
  if (item.is_moved) return RenewResult::kMoved;
  return item.is_anothers ? RenewResult::kAnothers : RenewResult::kGone;
}

bool Renewals::IsDecided(const Item& item, const Round& round) const {
  return round.waiting == 0 || ResultOf(item) != RenewResult::kUnanswered;
}

void Renewals::TryAnswer(Round& round, bool at_once) {
  if (round.answered) return;
  const bool all =
      std::all_of(round.items.begin(), round.items.end(), [&](const Item& item) { return IsDecided(item, round); });
  if (!at_once && !all) return;
  round.answered = true;
  core::RenewDoneBatch done;
  for (const Item& item : round.items) {
    done.results.push_back(ResultOf(item));
    if (round.has_hold) {
      done.hold_left.push_back(done.results.back() == RenewResult::kRenewed ? item.hold_left : item.refused_hold_left);
    }
    if (done.results.back() == RenewResult::kUnanswered) {
      done.trouble = std::to_string(__builtin_popcount(item.renewed)) + " of " + std::to_string(context_.nodes.size()) +
                     " servers have renewed it; " + context_.nodes.Trouble();
    }
  }
  context_.Answer(round.op, std::move(done));
}

// A lease that q servers have renewed goes to the others again. One that too many have lost joins no server any more.
void Renewals::Repair(Round& round) {
  for (Item& item : round.items) {
    const RenewResult result = ResultOf(item);
    if (result == RenewResult::kUnanswered || (item.is_done && item.lacks == 0)) continue;
    Candidate* const candidate = candidates_.Find({item.asked.name, item.asked.owner});
    const bool is_meant = candidate != nullptr && candidate->phase == Candidate::Phase::kHeld &&
                          (item.asked.token == 0 || item.asked.token == candidate->token);
    if (is_meant && result != RenewResult::kRenewed) {
      candidate->deadline = std::min(candidate->deadline, context_.now);
      continue;
    }
    if (is_meant) {
      candidate->is_callers = !item.asked.ours;
      candidates_.OnRenewed(*candidate, round.sent, item.renewed, item.lacks);
    }
    item.is_done = true;
    item.lacks = 0;
  }
}

void Renewals::OnTick() {
  while (core::Timed* due = timers_.PopDue(context_.now)) {
    Round& round = static_cast<Round&>(*due);
    TryAnswer(round, /*at_once=*/true);
  }
}

}  // namespace distlock::store::ballot
