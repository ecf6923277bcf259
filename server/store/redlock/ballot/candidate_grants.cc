// SPDX-License-Identifier: Apache-2.0
//
// Candidates: what follows from a verdict, and what a candidate that has the lock does for its votes.
#include <algorithm>
#include <utility>

#include "store/redlock/ballot/candidates.h"
#include "store/redlock/ballot/place.h"

namespace distlock::store::ballot {
namespace {

using Phase = Candidate::Phase;

constexpr Duration kJoinAttempt = std::chrono::milliseconds(500);
constexpr int kMostJoins = 10;  // then the next renewal joins the rest
constexpr Duration kForgetSlack = std::chrono::milliseconds(100);

}  // namespace

// J1, or J2 when it is confirmed.
void Candidates::Win(Candidate& candidate, uint64_t token, Instant from) {
  const Spec& spec = candidate.spec;
  candidate.phase = Phase::kHeld;
  candidate.token = token;
  candidate.deadline = from + spec.ttl - context_.Margin(spec.ttl);
  candidate.forget_at = from + spec.ttl + spec.lock_delay + kForgetSlack;
  candidate.join_at = candidate.ask_at = core::kNever;
  candidate.is_open = false;
  candidate.back_off = candidate.splits = candidate.yields = 0;
  const core::StoreTime since = SinceOf(token);
  const HoldStart hold = HoldStartOf(candidate, token, context_.nodes.quorum());
  const bool all =
      std::ranges::all_of(candidate.at, [&](const VoteAtServer& at_node) { return at_node.token == token; });
  const bool is_bounded = spec.max_hold > Duration::zero();
  candidate.hold_until = is_bounded ? hold.began + spec.max_hold : core::kNever;
  // The votes of the others may be on their way.
  if (!all) candidate.join_at = context_.now + context_.Trips(kGatherTrips);
  Arm(candidate);
  if (candidate.unanswered.empty()) {
    context_.TellGrant(core::GrantNotice{.name = spec.name,
                                         .owner = spec.owner,
                                         .token = token,
                                         .since = since,
                                         .ttl = spec.ttl,
                                         .made = from,
                                         .counted_from = from},
                       spec.lock_delay);
  } else {
    // The core counts from its question on.
    const Duration held_for = candidate.LastUnanswered()->at - hold.began;
    const Duration held_at_least = context_.now - hold.began_by;
    AnswerAll(candidate, core::AcquireGranted{.token = token,
                                              .since = since,
                                              .held_for = std::max(held_for, Duration::zero()),
                                              .held_at_least = std::max(held_at_least, Duration::zero())});
  }
}

// The core counts max_hold from a notice of the grant on, and of an answer what is left of it.
Duration Candidates::Promise(const Candidate& candidate) const {
  const Spec& spec = candidate.spec;
  if (spec.max_hold == Duration::zero()) return spec.ttl;
  if (candidate.unanswered.empty()) return std::min(spec.ttl, spec.max_hold);
  const Instant began = HoldStartOf(candidate, 0, context_.nodes.quorum()).began;
  return std::clamp<Duration>(began + spec.max_hold - context_.now, Duration::zero(), spec.ttl);
}

// J2
void Candidates::Confirm(Candidate& candidate, uint64_t token) {
  context_.Count(QuorumRound::kConfirm);
  candidate.phase = Phase::kConfirming;
  candidate.is_open = false;
  candidate.confirming = token;
  candidate.confirm_sent = context_.now;
  candidate.confirm_asked = candidate.confirmed = 0;
  candidate.promised = Promise(candidate);
  const Spec& spec = candidate.spec;
  for (NodeIndex node = 0; node < candidate.at.size(); ++node) {
    if (candidate.at[node].token == 0 || !context_.nodes.IsUp(node)) continue;
    candidate.confirm_asked |= Bit(node);
    candidate.at[node].raised = std::max(candidate.at[node].raised, token);
    context_.Send(
        {.by = Sent::By::kConfirm, .node = node, .claim = spec.claim(), .candidate = candidate.serial, .token = token},
        ConfirmVote{spec.name, spec.owner, candidate.marks, token, spec.ttl + spec.lock_delay, candidate.promised});
  }
  candidate.ask_at = context_.now + std::max(context_.Trips(kPatienceTrips), context_.config.node_timeout);
  Arm(candidate);
}

// J3
void Candidates::Yield(Candidate& candidate, const std::optional<OwnerId>& holder) {
  context_.Count(QuorumRound::kYield);
  const Spec& spec = candidate.spec;
  candidate.yields = holder && holder == candidate.yielded_to ? candidate.yields + 1 : 0;
  candidate.yielded_to = holder;
  // A question would renew the vote of a grant that the core was told. It ends by itself, unless its holder renews it.
  candidate.ask_at = context_.now + spec.ttl + spec.lock_delay + kForgetSlack;
  if (NobodyBelieves(candidate, BenchFor(candidate))) candidate.token = 0;
  for (NodeIndex node = 0; node < candidate.at.size(); ++node) {
    VoteAtServer& at_node = candidate.at[node];
    if (at_node.token == 0 || at_node.token == candidate.token || !context_.nodes.IsUp(node)) continue;
    at_node.yielded = at_node.yielding = std::exchange(at_node.token, 0);
    at_node.queued = true;
    candidate.ask_at = core::kNever;
    at_node.waits_from = context_.now;
    context_.Send(
        {.by = Sent::By::kYield,
         .node = node,
         .claim = spec.claim(),
         .candidate = candidate.serial,
         .token = at_node.yielded},
        YieldVote{spec, at_node.yielded, /*hands_on=*/!holder, context_.nodes.Proposal(context_.now), candidate.marks});
  }
  Arm(candidate);
}

// So that the loss of a server that voted does not end the grant.
void Candidates::JoinRest(Candidate& candidate) {
  candidate.join_at = core::kNever;
  const Instant run_before = std::min({candidate.deadline, candidate.hold_until, context_.now + kJoinAttempt});
  if (run_before <= context_.now) return;
  Spec spec = candidate.spec;
  if (candidate.hold_until != core::kNever) {
    // A server counts max_hold from when it joins.
    spec.max_hold = candidate.hold_until - context_.now;
    if (candidate.is_callers) spec.ttl = std::min(spec.ttl, spec.max_hold);
  }
  bool asks = false;
  for (NodeIndex node = 0; node < candidate.at.size(); ++node) {
    const VoteAtServer& at_node = candidate.at[node];
    if (!candidate.Lacks(node) || !context_.nodes.IsUp(node)) continue;
    if (debts_.Blocks(node, spec.claim())) continue;
    const uint64_t greatest = std::max({candidate.token, at_node.token, at_node.raised});
    context_.Send({.by = Sent::By::kJoin,
                   .node = node,
                   .run_before = run_before,
                   .claim = spec.claim(),
                   .candidate = candidate.serial,
                   .token = candidate.token},
                  JoinGrant{spec, candidate.token, greatest, run_before});
    asks = true;
  }
  if (asks) context_.Count(QuorumRound::kJoin);
}

// Somebody else had that server's vote, who cannot get the lock and gives it back soon; or the server stood still.
void Candidates::JoinLater(Candidate& candidate) {
  if (candidate.phase != Phase::kHeld || candidate.back_off >= kMostJoins) return;
  const Duration pause = context_.Trips(kGatherTrips) * (1 << candidate.back_off++);
  candidate.join_at = std::min(candidate.join_at, context_.now + std::min(pause, kLongestBackOff));
  Arm(candidate);
}

void Candidates::Hold(Spec spec, uint64_t token, Instant from, Duration held_for, uint32_t voters) {
  auto& slot = candidates_[spec.claim()];
  if (!slot) {
    slot = std::make_unique<Candidate>();
    slot->serial = ++last_serial_;
    slot->at.resize(context_.nodes.size());
    by_lock_[spec.name].emplace(slot->serial, slot.get());
    by_serial_.emplace(slot->serial, slot.get());
  }
  Candidate& candidate = *slot;
  candidate.spec = std::move(spec);
  candidate.marks.Add(Marks::Of(candidate.spec.mark));
  candidate.phase = Phase::kHeld;
  candidate.token = token;
  const Duration max_hold = candidate.spec.max_hold;
  candidate.hold_until = max_hold > Duration::zero() ? from - held_for + max_hold : core::kNever;
  candidate.ask_at = core::kNever;
  for (NodeIndex node = 0; node < candidate.at.size(); ++node) {
    if ((voters & Bit(node)) == 0) continue;
    candidate.at[node].token = token;
    candidate.at[node].from = from;
    candidate.at[node].began = from - held_for;
    candidate.at[node].began_by = context_.now - held_for;
  }
  OnRenewed(candidate, from, voters, 0);
  candidate.join_at = context_.now + context_.Trips(kGatherTrips);
  Arm(candidate);
}

void Candidates::OnDowngraded(Candidate& candidate, const std::string& info, uint32_t downgraded, Instant sent) {
  if (candidate.spec.want.mode == core::Mode::kShared) return;  // a repeat
  candidate.downgraded_at = sent;
  candidate.spec.want.mode = core::Mode::kShared;
  candidate.spec.info += info;
  for (NodeIndex node = 0; node < candidate.at.size(); ++node) {
    candidate.at[node].is_behind = (downgraded & Bit(node)) == 0;
  }
  candidate.join_at = std::min(candidate.join_at, context_.now + context_.Trips(kGatherTrips));
  Arm(candidate);
}

void Candidates::OnRenewed(Candidate& candidate, Instant sent, uint32_t renewed, uint32_t refused) {
  const Spec& spec = candidate.spec;
  candidate.deadline = std::max(candidate.deadline, sent + spec.ttl - context_.Margin(spec.ttl));
  candidate.forget_at = std::max(candidate.forget_at, sent + spec.ttl + spec.lock_delay + kForgetSlack);
  for (NodeIndex node = 0; node < candidate.at.size(); ++node) {
    VoteAtServer& at_node = candidate.at[node];
    if ((renewed & Bit(node)) != 0 && std::exchange(at_node.token, candidate.token) != candidate.token) {
      candidate.HasJoined(at_node, sent, context_.now);
    }
    if ((refused & Bit(node)) != 0) candidate.at[node].token = 0;
  }
  // Only now, when q servers have confirmed the grant: else it could come back after its end.
  candidate.back_off = 0;
  const bool is_behind = std::ranges::any_of(candidate.at, &VoteAtServer::is_behind);
  if (refused != 0 || is_behind) JoinRest(candidate);
  Arm(candidate);
}

}  // namespace distlock::store::ballot
