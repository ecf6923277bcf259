// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/candidates.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/check.h"
#include "store/redlock/ballot/place.h"
#include "store/text.h"

namespace distlock::store::ballot {
namespace {

using Phase = Candidate::Phase;
using Kind = Verdict::Kind;
using AnswerAtServer = VoteAtServer::Answer;

constexpr Duration kVoteAttempt = std::chrono::milliseconds(500);

Spec SpecOf(const core::StoreAcquire& in, Place place, uint64_t mark) {
  return {.name = in.name,
          .owner = in.owner,
          .want = in.want,
          .ttl = in.ttl,
          .lock_delay = in.lock_delay,
          .max_hold = in.max_hold,
          .min_hold = in.min_hold,
          .info = in.info,
          .place = place,
          .mark = mark};
}

Debts::Due OwedBy(const Candidate& candidate, const Marks& marks) {
  const Spec& spec = candidate.spec;
  return {.claim = spec.claim(), .marks = marks, .life = spec.ttl + spec.lock_delay};
}

}  // namespace

void Candidates::Acquire(const core::StoreAcquire& in) {
  auto& slot = candidates_[Claim{in.name, in.owner}];
  if (!slot) {
    slot = std::make_unique<Candidate>();
    slot->serial = ++last_serial_;
    slot->spec.place = context_.nodes.NextPlace(context_.now, core::IsPreferred(in.want));
    slot->spec.mark = context_.NextMark();
    slot->marks = Marks::Of(slot->spec.mark);
    slot->at.resize(context_.nodes.size());
    by_lock_[in.name].emplace(slot->serial, slot.get());
    by_serial_.emplace(slot->serial, slot.get());
  }
  Candidate& candidate = *slot;
  candidate.spec = SpecOf(in, candidate.spec.place, candidate.spec.mark);
  candidate.unanswered.push_back({in.op, context_.now});
  candidate.waits = in.wait;
  candidate.again = in.again;
  candidate.run_before = in.run_before;
  candidate.phase = Phase::kVoting;
  candidate.splits = 0;
  candidate.join_at = candidate.forget_at = core::kNever;
  Ask(candidate);
}

Candidate* Candidates::Find(const Claim& claim) const {
  const auto found = candidates_.find(claim);
  return found == candidates_.end() ? nullptr : found->second.get();
}

void Candidates::Forget(Candidate& candidate) {
  AnswerAll(candidate, core::StoreUnknown{"it was given up meanwhile"});
  timers_.Cancel(candidate);
  const auto lock = by_lock_.find(candidate.spec.name);
  lock->second.erase(candidate.serial);
  if (lock->second.empty()) by_lock_.erase(lock);
  by_serial_.erase(candidate.serial);
  const Claim claim = candidate.spec.claim();
  candidates_.erase(claim);
}

// ---- A round of votes ----

void Candidates::Ask(Candidate& candidate, uint64_t found) {
  context_.Count(QuorumRound::kVote);
  candidate.round = ++last_round_;
  candidate.is_open = true;
  candidate.is_dated = false;
  candidate.asked = context_.now;
  candidate.ask_at = core::kNever;
  for (NodeIndex node = 0; node < candidate.at.size(); ++node) {
    VoteAtServer& at_node = candidate.at[node];
    at_node.answer = AnswerAtServer::kNothing;
    at_node.found = 0;
    at_node.rivals.clear();
    at_node.left.reset();
    at_node.queue_length = at_node.position = 0;
    if (context_.nodes.IsUp(node) && !debts_.Blocks(node, candidate.spec.claim())) SendAsk(candidate, node, found);
  }
  Consider(candidate);
}

void Candidates::SendAsk(Candidate& candidate, NodeIndex node, uint64_t found) {
  VoteAtServer& at_node = candidate.at[node];
  const Instant run_before =
      std::min(context_.now + kVoteAttempt, candidate.unanswered.empty() ? core::kNever : candidate.run_before);
  at_node.answer = AnswerAtServer::kAsked;
  if (at_node.asked_from == Instant{}) at_node.asked_from = at_node.waits_from = context_.now;
  context_.Send({.by = Sent::By::kVote,
                 .node = node,
                 .run_before = run_before,
                 .claim = candidate.spec.claim(),
                 .candidate = candidate.serial,
                 .id = candidate.round},
                AskVote{.spec = candidate.spec,
                        .run_before = run_before,
                        .wait = candidate.waits,
                        .again = candidate.again || candidate.acked,
                        .least_token = context_.nodes.Proposal(context_.now),
                        .marks = candidate.marks,
                        .found = found});
}

ServersView Candidates::BenchFor(const Candidate& candidate) const {
  const Duration ttl = candidate.spec.ttl;
  return {.nodes = context_.nodes.size(),
          .quorum = context_.nodes.quorum(),
          .up = context_.nodes.up(),
          .counts = context_.nodes.counting(),
          .now = context_.now,
          .patience = candidate.asked + context_.Trips(kPatienceTrips),
          .silence = candidate.asked + std::min<Duration>(context_.config.node_timeout, ttl / 10),
          .margin = context_.Margin(ttl),
          .enough = std::min(context_.config.validity, ttl / 3 * 2),
          .proposal = context_.nodes.Proposal(context_.now)};
}

void Candidates::Consider(Candidate& candidate) {
  if (candidate.phase != Phase::kVoting) return Arm(candidate);
  const ServersView servers = BenchFor(candidate);
  const Verdict verdict = Judge(candidate, servers);
  switch (verdict.kind) {
    case Kind::kGrant:
      return Win(candidate, verdict.token, verdict.from);
    case Kind::kConfirm:
      if (context_.now < candidate.confirm_again) return Arm(candidate);
      return Confirm(candidate, verdict.token);
    default:
      break;
  }
  if (!candidate.is_open) {
    const bool has_votes =
        std::any_of(candidate.at.begin(), candidate.at.end(), [](const VoteAtServer& s) { return s.token != 0; });
    if (has_votes && candidate.ask_at == core::kNever) Gather(candidate);
    return Arm(candidate);
  }
  if (candidate.waits && !candidate.unanswered.empty() && HasPlace(candidate, servers)) {
    const Scene scene = SceneOf(candidate, servers.quorum);
    candidate.acked = true;
    AnswerAll(candidate, core::AcquireQueued{.position = scene.position,
                                             .holders = scene.holders,
                                             .queue_length = scene.queue_length,
                                             .left = scene.left,
                                             .as_of = 0,
                                             .held_off = HeldOff(candidate, scene)});
  }
  switch (verdict.kind) {
    case Kind::kYield:
      Close(candidate);
      return Yield(candidate, verdict.holder);
    case Kind::kKeep:
      Close(candidate);
      return AskLater(candidate);
    case Kind::kWaitForTurn:
      return Close(candidate);
    case Kind::kRefuse:
      return Refuse(candidate);
    case Kind::kSplit:
      return Split(candidate);
    case Kind::kNoQuorum:
      return OnNoQuorum(candidate);
    case Kind::kLate:
      AnswerAll(candidate, core::AcquireLate{});
      return candidate.acked ? Close(candidate) : End(candidate);
    case Kind::kFail:
      return Fail(candidate, candidate.at[verdict.node].refusal);
    default:
      return Arm(candidate);
  }
}

void Candidates::Close(Candidate& candidate) {
  candidate.is_open = false;
  Arm(candidate);
}

// A vote has come by itself: others may be on their way. If it can only be given back, as the last ones, because the
// same holder is still there, there is no haste: the question would give votes to others, who ask in turn.
void Candidates::Gather(Candidate& candidate) {
  const Duration pause = context_.Trips(kGatherTrips) * (1 << std::min(candidate.yields, 10));
  candidate.ask_at =
      context_.now + (candidate.yields == 0 ? pause : context_.Jittered(std::min(pause, kLongestBackOff)));
}

// Without rivals a candidate keeps its votes, and asks for the rest less and less often.
void Candidates::AskLater(Candidate& candidate) {
  const Duration pause = context_.Trips(kGatherTrips) * (1 << std::min(candidate.back_off, 10));
  candidate.back_off = std::min(candidate.back_off + 1, 10);
  candidate.ask_at = context_.now + context_.Jittered(std::min(pause, kLongestBackOff));
  Arm(candidate);
}

// Several tries have some votes each: all give them back, and try again at different times. What they ask for then has
// another mark.
void Candidates::Split(Candidate& candidate) {
  if (candidate.MayBeHeld()) {
    ++candidate.splits;
    candidate.is_open = false;
    return AskLater(candidate);
  }
  const Marks marks = candidate.marks;
  candidate.spec.place = context_.nodes.NextPlace(context_.now, core::IsPreferred(candidate.spec.want));
  candidate.spec.mark = context_.NextMark();
  candidate.marks = Marks::Of(candidate.spec.mark);
  candidate.marked_from = context_.now;
  for (NodeIndex node = 0; node < candidate.at.size(); ++node) {
    VoteAtServer& at_node = candidate.at[node];
    if (at_node.answer == AnswerAtServer::kNotVoted && at_node.token == 0) continue;
    if (at_node.answer == AnswerAtServer::kNothing) continue;
    at_node.yielded = std::max(at_node.yielded, at_node.token);
    at_node.token = 0;
    debts_.OweOne(node, OwedBy(candidate, marks), at_node.may_run_until);
  }
  ++candidate.splits;
  candidate.is_open = false;
  const Duration most = context_.Trips(2) * (1 << candidate.splits);
  candidate.ask_at = context_.now + context_.Trips(1) +
                     Duration(static_cast<int64_t>(static_cast<double>(most.count()) * context_.random.Next()));
  Arm(candidate);
}

void Candidates::OnNoQuorum(Candidate& candidate) {
  const std::string cause = Cat("too few servers answer: ", context_.nodes.Trouble(), TroubleOf(candidate));
  if (!candidate.waits) {
    AnswerAll(candidate, core::StoreFailed{core::FailureKind::kUnavailable, cause});
    return End(candidate);
  }
  // It keeps what it has; the core asks again, or withdraws it.
  AnswerAll(candidate, core::StoreUnknown{cause});
  Close(candidate);
}

void Candidates::Fail(Candidate& candidate, const Outcome& refusal) {
  if (const auto* failed = std::get_if<core::StoreFailed>(&refusal)) AnswerAll(candidate, *failed);
  if (const auto* full = std::get_if<core::AcquireQueueFull>(&refusal)) AnswerAll(candidate, *full);
  if (const auto* mismatch = std::get_if<core::AcquireMismatch>(&refusal)) AnswerAll(candidate, *mismatch);
  End(candidate);
}

void Candidates::Refuse(Candidate& candidate) {
  const Scene scene = SceneOf(candidate, context_.nodes.quorum());
  AnswerAll(candidate, core::AcquireHeld{.holders = scene.holders,
                                         .queue_length = scene.queue_length,
                                         .left = scene.left,
                                         .held_off = HeldOff(candidate, scene)});
  End(candidate);
}

// How long only so few servers count that nobody new is granted the lock, which has no holder.
Duration Candidates::HeldOff(const Candidate& candidate, const Scene& scene) const {
  const bool shares = candidate.spec.want.mode == core::Mode::kShared &&
                      std::all_of(candidate.at.begin(), candidate.at.end(),
                                  [](const VoteAtServer& at_node) { return at_node.rivals.empty() || at_node.shares; });
  return scene.holders.empty() || shares ? context_.nodes.HeldOffFor(context_.now) : Duration::zero();
}

// Releases all that it may have at any server.
void Candidates::End(Candidate& candidate) {
  if (candidate.MayBeHeld()) return Forget(candidate);
  for (NodeIndex node = 0; node < candidate.at.size(); ++node) {
    const VoteAtServer& at_node = candidate.at[node];
    const bool has_nothing = (at_node.answer == AnswerAtServer::kNotVoted && at_node.token == 0 && !at_node.queued) ||
                             at_node.answer == AnswerAtServer::kRefused;
    if (has_nothing && at_node.may_run_until <= context_.now) continue;
    debts_.OweOne(node, OwedBy(candidate, candidate.marks), at_node.may_run_until);
  }
  Forget(candidate);
}

// ---- Time ----

void Candidates::Arm(Candidate& candidate) {
  Instant at = candidate.ask_at;
  if (candidate.phase == Phase::kHeld) {
    at = std::min(candidate.join_at, candidate.forget_at);
  } else if (candidate.phase == Phase::kVoting && candidate.is_open) {
    const ServersView servers = BenchFor(candidate);
    for (const Instant due : {servers.patience, servers.silence}) {
      if (due > context_.now) at = std::min(at, due);
    }
  }
  timers_.Set(candidate, at);
}

void Candidates::OnTick() {
  while (core::Timed* due = timers_.PopDue(context_.now)) OnTimer(static_cast<Candidate&>(*due));
}

// A try's give-back is on its way yet: to anybody for a little, then to so many that the others are too few. A slow
// server delays nobody.
bool Candidates::AwaitsGivenBack(const Candidate& candidate) const {
  size_t free = 0;
  size_t blocked = 0;
  for (NodeIndex node = 0; node < candidate.at.size(); ++node) {
    if (!context_.nodes.IsUp(node)) continue;
    ++(debts_.Blocks(node, candidate.spec.claim()) ? blocked : free);
  }
  if (blocked == 0 || context_.now >= candidate.run_before) return false;
  return free < context_.nodes.quorum() || context_.now < candidate.asked + context_.Trips(2 * kPatienceTrips);
}

void Candidates::OnTimer(Candidate& candidate) {
  if (candidate.phase == Phase::kHeld) {
    if (context_.now >= candidate.forget_at) return Forget(candidate);
    if (context_.now >= candidate.join_at) JoinRest(candidate);
    return Arm(candidate);
  }
  if (context_.now < candidate.ask_at) return Consider(candidate);
  candidate.phase = Phase::kVoting;
  if (!candidate.waits && candidate.unanswered.empty()) return End(candidate);
  if (!candidate.waits && AwaitsGivenBack(candidate)) {
    candidate.ask_at = context_.now + context_.Trips(1);
    return Arm(candidate);
  }
  Ask(candidate);
}

// ---- Servers that come and go ----

void Candidates::OnNodeUp(NodeIndex node, bool forgot) {
  std::vector<Candidate*> all;
  all.reserve(by_serial_.size());
  for (const auto& [serial, candidate] : by_serial_) all.push_back(candidate);
  for (Candidate* candidate : all) {
    VoteAtServer& at_node = candidate->at[node];
    if (forgot) {
      at_node.token = at_node.raised = at_node.yielded = at_node.yielding = at_node.lost_yield = at_node.leaving = 0;
      at_node.queued = at_node.is_fresh = false;
    }
    const bool is_held = candidate->phase == Phase::kHeld;
    if (is_held && candidate->Lacks(node)) {
      candidate->join_at = std::min(candidate->join_at, context_.now + context_.Trips(1));
      Arm(*candidate);
    }
    const bool has_nothing = !is_held && !at_node.queued && at_node.token == 0;
    if (candidate->waits && has_nothing && !debts_.Blocks(node, candidate->spec.claim())) SendAsk(*candidate, node);
  }
}

void Candidates::OnSettled(NodeIndex node, const Claim& claim) {
  Candidate* const candidate = Find(claim);
  if (candidate == nullptr || candidate->phase != Phase::kVoting || !candidate->waits) return;
  const bool may_ask = context_.nodes.IsUp(node) && !debts_.Blocks(node, claim);
  if (may_ask && candidate->at[node].answer == AnswerAtServer::kNothing) SendAsk(*candidate, node);
}

void Candidates::AskAllOf(NodeIndex node, const LockName& name) {
  const auto lock = by_lock_.find(name);
  if (lock == by_lock_.end() || !context_.nodes.IsUp(node)) return;
  for (const auto& [serial, candidate] : lock->second) {
    const VoteAtServer& at_node = candidate->at[node];
    if (candidate->phase == Phase::kHeld || !candidate->waits || at_node.answer == AnswerAtServer::kAsked) continue;
    if (!debts_.Blocks(node, candidate->spec.claim())) SendAsk(*candidate, node);
  }
}

std::vector<OwnerId> Candidates::WaitersOf(const LockName& name, size_t most) const {
  std::vector<OwnerId> owners;
  const auto lock = by_lock_.find(name);
  if (lock == by_lock_.end()) return owners;
  for (const auto& [serial, candidate] : lock->second) {
    if (owners.size() == most) break;
    if (candidate->phase != Phase::kHeld && candidate->waits) owners.push_back(candidate->spec.owner);
  }
  return owners;
}

void Candidates::OnCounting(uint32_t nodes) {
  std::vector<Candidate*> voted;
  for (const auto& [serial, candidate] : by_serial_) {
    for (NodeIndex node = 0; node < candidate->at.size(); ++node) {
      const bool has_vote = (nodes & Bit(node)) != 0 && candidate->at[node].token != 0;
      if (has_vote && candidate->phase == Phase::kVoting && (voted.empty() || voted.back() != candidate)) {
        voted.push_back(candidate);
      }
    }
  }
  for (Candidate* candidate : voted) Consider(*candidate);
}

}  // namespace distlock::store::ballot
