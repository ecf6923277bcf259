// SPDX-License-Identifier: Apache-2.0
//
// Candidates: what the servers answer.
#include <algorithm>
#include <utility>

#include "store/redlock/ballot/candidates.h"
#include "store/redlock/ballot/merge.h"
#include "store/redlock/ballot/place.h"

namespace distlock::store::ballot {
namespace {

using Phase = Candidate::Phase;
using AnswerAtServer = VoteAtServer::Answer;

// A lock that seems free, but has not q votes for anybody yet, is worth another look after this time.
constexpr Duration kFreeLook = std::chrono::milliseconds(250);

}  // namespace

void Candidates::OnReply(const Sent& sent, Outcome& outcome, core::StoreTime time) {
  // A yield may pass a vote on to another candidate.
  if (auto* gave = std::get_if<GaveBack>(&outcome)) {
    for (const core::HolderView& next : gave->next) OnVote(sent.node, sent.claim.name, next, sent.at);
  }
  Candidate* const candidate = Find(sent.claim);
  const bool is_unknown = std::holds_alternative<core::StoreUnknown>(outcome);
  // It was given up, and what it has is owed.
  if (candidate == nullptr || candidate->serial != sent.candidate) {
    if (is_unknown) debts_.OnMayRun(sent.node, sent.claim, sent.run_before);
    return;
  }
  if (is_unknown) {
    Instant& until = candidate->at[sent.node].may_run_until;
    until = std::max(until, sent.run_before);
  }
  switch (sent.by) {
    case Sent::By::kVote:
      return OnVoteReply(*candidate, sent, outcome, time);
    case Sent::By::kConfirm:
      return OnConfirmReply(*candidate, sent, outcome);
    case Sent::By::kJoin:
      return OnJoinReply(*candidate, sent, outcome);
    case Sent::By::kYield:
      return OnYieldReply(*candidate, sent, outcome);
    default:
      return;
  }
}

void Candidates::OnVoteReply(Candidate& candidate, const Sent& sent, Outcome& outcome, core::StoreTime time) {
  VoteAtServer& at_node = candidate.at[sent.node];
  const bool is_current = sent.id == candidate.round;
  if (const auto* voted = std::get_if<Voted>(&outcome)) {
    if (!voted->is_found) {
      OnVoted(candidate, sent, *voted);
    } else if (const uint64_t found = OnFound(candidate, sent, *voted); found != 0) {
      return Ask(candidate, found);
    }
  } else if (auto* not_voted = std::get_if<NotVoted>(&outcome)) {
    if (OnNotVoted(candidate, sent, *not_voted, time)) return Ask(candidate);
  } else if (is_current) {
    const auto* failed = std::get_if<core::StoreFailed>(&outcome);
    const bool repeats = failed != nullptr &&
                         (failed->kind == core::FailureKind::kForeignKey || failed->kind == core::FailureKind::kFull);
    if (std::holds_alternative<core::AcquireLate>(outcome)) {
      at_node.answer = AnswerAtServer::kLate;
    } else if (repeats || std::holds_alternative<core::AcquireQueueFull>(outcome) ||
               std::holds_alternative<core::AcquireMismatch>(outcome)) {
      at_node.answer = AnswerAtServer::kRefused;
      // The hold there is in another mode: no vote for what it wants now.
      if (std::holds_alternative<core::AcquireMismatch>(outcome)) at_node.token = 0;
      at_node.refusal = std::move(outcome);
    } else {
      at_node.answer = AnswerAtServer::kFailed;
      at_node.trouble = failed != nullptr ? failed->cause : "";
    }
  }
  Consider(candidate);
}

void Candidates::OnVoted(Candidate& candidate, const Sent& sent, const Voted& voted) {
  VoteAtServer& at_node = candidate.at[sent.node];
  // An earlier request's vote has been given back, or is owed.
  if (sent.at < candidate.marked_from || voted.token <= at_node.yielded) return;
  // A trip more or less does not matter: a server begins to count long after what it may have forgotten has ended.
  const bool counted = context_.nodes.HasCountedSince(sent.node, context_.now - voted.held_for);
  if (at_node.token != voted.token) at_node.is_fresh = counted && voted.token > at_node.leaving;
  at_node.from = at_node.token == voted.token ? std::max(at_node.from, sent.at) : sent.at;
  at_node.token = voted.token;
  at_node.since = voted.since;
  const bool is_bounded = voted.hold_left && candidate.spec.max_hold > Duration::zero();
  const Duration held_for = is_bounded ? candidate.spec.max_hold - *voted.hold_left : voted.held_for;
  at_node.began = std::min(sent.at - held_for, sent.at);
  at_node.began_by = std::min(context_.now - held_for, context_.now);
  if (context_.nodes.MayBeMistaken(sent.node, voted.since, voted.token, context_.now)) {
    at_node.began = std::min(at_node.began, context_.nodes.Earliest(sent.node, SinceOf(voted.token), context_.now));
  }
  at_node.queued = false;
  if (sent.id == candidate.round) at_node.answer = AnswerAtServer::kVoted;
  if (candidate.phase == Phase::kHeld && at_node.token != candidate.token) {
    candidate.join_at = std::min(candidate.join_at, context_.now + context_.Trips(1));
  }
}

// Another candidate of the same owner has the lock there. It may give that back, so this one does not count it, nor
// give it back itself. What q servers have under one token is a grant of the same request: this candidate asks for it,
// which puts it out of the reach of what the other one may owe. Returns the token of that; 0: there is none.
uint64_t Candidates::OnFound(Candidate& candidate, const Sent& sent, const Voted& voted) {
  VoteAtServer& at_node = candidate.at[sent.node];
  if (sent.id != candidate.round) return 0;
  at_node.answer = AnswerAtServer::kFailed;
  at_node.trouble.clear();
  at_node.found = voted.token;
  at_node.token = 0;
  const size_t count = std::count_if(candidate.at.begin(), candidate.at.end(),
                                     [&](const VoteAtServer& other) { return other.found == voted.token; });
  return count == context_.nodes.quorum() && candidate.phase == Phase::kVoting ? voted.token : 0;
}

void Candidates::MoveTo(Candidate& candidate, Place place) {
  candidate.spec.place = place;
  context_.nodes.PassPlace(place, context_.now);
}

// Returns whether its place has changed, so that all servers are to be asked again.
bool Candidates::OnNotVoted(Candidate& candidate, const Sent& sent, NotVoted& answer, core::StoreTime time) {
  VoteAtServer& at_node = candidate.at[sent.node];
  // A notice of a vote that was given after this answer may have overtaken it.
  if (at_node.since.us <= time.us) at_node.token = 0;
  at_node.queued = answer.queued && at_node.token == 0;
  if (answer.queued) {
    at_node.waits_from = std::max(at_node.waits_from, sent.at);
    at_node.waits_at.us = std::max(at_node.waits_at.us, time.us);
  }
  if (sent.id == candidate.round) {
    at_node.answer = at_node.token == 0 ? AnswerAtServer::kNotVoted : AnswerAtServer::kVoted;
    at_node.shares = answer.mode == core::Mode::kShared;
    at_node.position = answer.position;
    at_node.queue_length = answer.queue_length;
    at_node.left = answer.left;
    at_node.rivals.clear();
    for (core::HolderView& view : answer.holders) {
      Rival rival;
      rival.place = TakeMark(view.info).place;
      rival.view = std::move(view);
      rival.view.since = SinceOf(rival.view.token);
      at_node.rivals.push_back(std::move(rival));
    }
  }
  if (candidate.phase == Phase::kHeld) {
    candidate.join_at = std::min(candidate.join_at, context_.now + context_.Trips(1));
    return false;
  }
  // An answer to an earlier question knows the former place.
  const bool is_current = sent.id == candidate.round;
  return is_current && candidate.phase == Phase::kVoting && answer.queued && MovePlace(candidate, answer);
}

bool Candidates::MovePlace(Candidate& candidate, const NotVoted& answer) {
  const Place place = candidate.spec.place;
  // Another try of the request had this place.
  if (answer.place < place) {
    MoveTo(candidate, answer.place);
    return true;
  }
  // Somebody was told of a place behind this one before it was asked for: this broker's reckoning of time is behind.
  constexpr Place kSlack = std::chrono::duration_cast<std::chrono::microseconds>(kTailSlack).count();
  if (candidate.acked || answer.tail == 0 || answer.tail <= place + kSlack) return false;
  MoveTo(candidate, answer.tail + 1);
  return true;
}

void Candidates::OnVote(NodeIndex node, const LockName& name, const core::HolderView& vote,
                        std::optional<Instant> from) {
  const Claim claim{name, vote.owner};
  if (debts_.Blocks(node, claim)) return;  // it is being given back
  Candidate* const found = Find(claim);
  if (found == nullptr) {
    // A repeatable owner's vote may be that of another broker's candidate by now.
    if (core::IsRepeatable(claim.owner)) return;
    return debts_.OweOne(node, {.claim = claim, .token = vote.token, .life = vote.ttl + vote.lock_delay});
  }
  Candidate& candidate = *found;
  VoteAtServer& at_node = candidate.at[node];
  if (vote.token <= std::max(at_node.yielded, at_node.token)) return;
  at_node.token = vote.token;
  at_node.from = std::max(from.value_or(at_node.waits_from), at_node.waits_from);
  // A notice may be of a vote that the same owner had before, and that has ended since, or was given back: the server
  // said later that the owner waits. Confirming tells.
  const bool is_new = from || (vote.since.us >= at_node.waits_at.us &&
                               context_.nodes.Earliest(node, vote.since, context_.now) >= at_node.asked_from);
  at_node.is_fresh = is_new && vote.token > at_node.leaving && context_.nodes.HasCountedSince(node, at_node.from);
  at_node.since = vote.since;
  at_node.began = at_node.from;
  at_node.began_by = context_.now;
  at_node.queued = false;
  if (at_node.answer == AnswerAtServer::kNotVoted) at_node.answer = AnswerAtServer::kVoted;
  candidate.is_dated = true;
  if (candidate.phase == Phase::kHeld && at_node.token != candidate.token) {
    candidate.join_at = std::min(candidate.join_at, context_.now + context_.Trips(1));
  }
  Consider(candidate);
}

void Candidates::OnTended(NodeIndex node, const LockName& name, const std::vector<OwnerId>& asked,
                          const core::TendDone& done, Instant sent) {
  if (done.slot_was_gone) {
    const auto lock = by_lock_.find(name);
    if (lock == by_lock_.end()) return;
    for (const auto& [serial, candidate] : lock->second) candidate->at[node].queued = false;
    return;
  }
  for (const OwnerId& owner : asked) {
    Candidate* const candidate = Find({name, owner});
    const bool holds = std::any_of(done.holders.begin(), done.holders.end(),
                                   [&](const core::HolderView& holder) { return holder.owner == owner; });
    if (candidate == nullptr || holds) continue;
    VoteAtServer& at_node = candidate->at[node];
    if (at_node.queued && at_node.token == 0) at_node.waits_from = std::max(at_node.waits_from, sent);
  }
  for (const core::HolderView& holder : done.holders) {
    Candidate* const candidate = Find({name, holder.owner});
    if (candidate == nullptr) continue;
    // A vote of a repeatable owner may be another candidate's. Confirming tells.
    VoteAtServer& at_node = candidate->at[node];
    if (core::IsRepeatable(holder.owner) && at_node.token != holder.token)
      at_node.leaving = std::max(at_node.leaving, holder.token);
    OnVote(node, name, holder, std::nullopt);
  }
}

void Candidates::OnConfirmReply(Candidate& candidate, const Sent& sent, const Outcome& outcome) {
  VoteAtServer& at_node = candidate.at[sent.node];
  const bool is_current =
      candidate.phase == Phase::kConfirming && sent.token == candidate.confirming && sent.at == candidate.confirm_sent;
  if (std::holds_alternative<NotHeld>(outcome)) at_node.token = 0;
  if (std::holds_alternative<Confirmed>(outcome) && sent.token >= at_node.token) {
    at_node.token = sent.token;
    at_node.from = sent.at;
    at_node.is_fresh = context_.nodes.HasCountedSince(sent.node, sent.at);
    if (is_current && candidate.spec.max_hold > Duration::zero()) {
      const Duration held_for = candidate.spec.max_hold - candidate.promised;
      at_node.began = std::max(at_node.began, sent.at - held_for);
      at_node.began_by = std::max(at_node.began_by, context_.now - held_for);
    }
  }
  if (!is_current) return Consider(candidate);
  // The token that the core was told is asked for of q servers that have it: it is not raised for another one's sake.
  const auto* low = std::get_if<TooLow>(&outcome);
  if (low != nullptr && candidate.confirming != candidate.token) {
    return Confirm(candidate, std::max(candidate.confirming, low->last) + 1);
  }
  candidate.confirm_asked &= ~Bit(sent.node);
  if (std::holds_alternative<Confirmed>(outcome) && at_node.is_fresh) candidate.confirmed |= Bit(sent.node);
  const size_t confirmed = __builtin_popcount(candidate.confirmed);
  if (confirmed >= context_.nodes.quorum()) {
    // A vote that came meanwhile lets more be promised: that is to be confirmed, too.
    if (candidate.promised < Promise(candidate)) return Confirm(candidate, candidate.confirming);
    return Win(candidate, candidate.confirming, candidate.confirm_sent);
  }
  if (confirmed + __builtin_popcount(candidate.confirm_asked) >= context_.nodes.quorum()) return;
  candidate.phase = Phase::kVoting;
  AskLater(candidate);
  candidate.confirm_again = candidate.ask_at;
}

void Candidates::OnJoinReply(Candidate& candidate, const Sent& sent, const Outcome& outcome) {
  if (sent.token != candidate.token) return;
  if (std::holds_alternative<Conflict>(outcome) || std::holds_alternative<core::AcquireLate>(outcome)) {
    return JoinLater(candidate);
  }
  if (!std::holds_alternative<Joined>(outcome)) return;
  VoteAtServer& at_node = candidate.at[sent.node];
  at_node.token = sent.token;
  at_node.from = sent.at;
  at_node.is_fresh = context_.nodes.HasCountedSince(sent.node, sent.at);
  at_node.queued = false;
  if (sent.at > candidate.downgraded_at) at_node.is_behind = false;
  candidate.HasJoined(at_node, sent.at, context_.now);
}

void Candidates::OnYieldReply(Candidate& candidate, const Sent& sent, Outcome& outcome) {
  VoteAtServer& at_node = candidate.at[sent.node];
  const bool is_unknown = std::holds_alternative<core::StoreUnknown>(outcome);
  if (is_unknown) at_node.lost_yield = std::max(at_node.lost_yield, sent.token);
  if (!is_unknown && at_node.yielding == sent.token) at_node.yielding = at_node.lost_yield;
  if (std::holds_alternative<GaveBack>(outcome)) return;
  // It may have the vote yet: asking tells.
  if (at_node.yielded == sent.token) at_node.yielded = 0;
  at_node.queued = false;
  if (candidate.phase == Phase::kVoting && candidate.ask_at == core::kNever) AskLater(candidate);
}

// ---- For callers ----

Scene SceneOf(const Candidate& candidate, size_t quorum) {
  Scene scene;
  struct Seen {
    core::HolderView view;
    size_t count = 0;
    Tokens tokens;
  };
  absl::btree_map<OwnerId, Seen> seen;
  std::vector<Duration> lefts;
  for (const VoteAtServer& at_node : candidate.at) {
    if (at_node.answer != AnswerAtServer::kNotVoted) continue;
    scene.position = std::max(scene.position, at_node.position);
    scene.queue_length = std::max(scene.queue_length, at_node.queue_length);
    lefts.push_back(at_node.left.value_or(kFreeLook));
    for (const Rival& rival : at_node.rivals) {
      Seen& one = seen[rival.view.owner];
      if (one.count++ == 0 || rival.view.time_left > one.view.time_left) one.view = rival.view;
      one.tokens.Add(rival.view.token);
    }
  }
  size_t most = 0;
  for (const auto& [owner, one] : seen) most = std::max(most, one.count);
  for (const auto& [owner, one] : seen) {
    if (one.count < std::min(most, quorum)) continue;
    core::HolderView& holder = scene.holders.emplace_back(one.view);
    holder.token = one.tokens.OfMost();
    holder.since = SinceOf(holder.token);
  }
  std::sort(scene.holders.begin(), scene.holders.end(),
            [](const auto& a, const auto& b) { return std::pair(a.token, a.owner) < std::pair(b.token, b.owner); });
  std::sort(lefts.begin(), lefts.end());
  scene.left =
      lefts.empty() ? kFreeLook : std::max<Duration>(lefts[std::min(lefts.size(), quorum) - 1], kFreeLook / 25);
  return scene;
}

}  // namespace distlock::store::ballot
