// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/rounds.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "core/limits.h"
#include "store/redlock/ballot/adopt_answers.h"
#include "store/redlock/ballot/merge.h"
#include "store/redlock/ballot/place.h"

namespace distlock::store::ballot {
namespace {

constexpr Duration kFreeLook = std::chrono::milliseconds(250);
constexpr Duration kOfStray = std::chrono::seconds(1);

// The lock that hands on what the command frees; empty: it frees nothing.
LockName Frees(const core::StoreCommand& command) {
  if (const auto* tend = std::get_if<core::StoreTend>(&command)) return tend->name;
  if (const auto* downgrade = std::get_if<core::StoreDowngrade>(&command)) return downgrade->name;
  if (const auto* force = std::get_if<core::StoreForce>(&command)) return force->name;
  return {};
}

}  // namespace

void Rounds::Begin(core::OpId op, core::StoreCommand&& command) {
  const uint64_t id = ++last_round_;
  auto& slot = rounds_[id];
  slot = std::make_unique<Round>();
  Round& round = *slot;
  round.serial = id;
  round.op = op;
  round.command = std::move(command);
  round.sent = context_.now;
  round.least_token = context_.nodes.Proposal(context_.now);
  round.patience = context_.now + context_.Trips(kPatienceTrips);
  round.silence = context_.now + std::max(context_.config.node_timeout, context_.Trips(kPatienceTrips));
  if (auto* adopt = std::get_if<core::StoreAdopt>(&round.command)) {
    const Place place = context_.nodes.NextPlace(context_.now, core::IsPreferred(adopt->want));
    adopt->info = WithMark({place, context_.NextMark()}, context_.config.broker_id, adopt->info);
  }
  const bool one_by_one = std::holds_alternative<core::StoreForce>(round.command);
  for (NodeIndex node = 0; node < context_.nodes.size(); ++node) {
    if (!context_.nodes.IsUp(node)) continue;
    one_by_one ? void(round.unasked |= Bit(node)) : Send(round, node);
  }
  if (one_by_one) {
    round.silence = context_.now + core::kAttemptMax;
    SendNext(round);
  } else {
    timers_.Set(round, round.patience);
  }
  if (round.waiting == 0) Finish(round);
}

void Rounds::Send(Round& round, NodeIndex node) {
  round.waiting |= Bit(node);
  const LockName frees = Frees(round.command);
  context_.Send({.by = Sent::By::kRound, .node = node, .claim = {.name = frees}, .id = round.serial},
                Plain{round.command, frees.empty() ? 0 : round.least_token});
}

// The next server of a force. One that is silent does not keep it from the others.
void Rounds::SendNext(Round& round) {
  round.ask_next_at = core::kNever;
  if (round.unasked != 0) {
    round.last_asked = static_cast<NodeIndex>(__builtin_ctz(round.unasked));
    round.unasked &= ~Bit(round.last_asked);
    Send(round, round.last_asked);
    if (round.unasked != 0) round.ask_next_at = context_.now + context_.config.node_timeout;
  }
  timers_.Set(round, std::min(round.ask_next_at, round.answered ? core::kNever : round.silence));
}

void Rounds::TendAgain(NodeIndex node, const LockName& name) {
  std::vector<OwnerId> asked = candidates_.WaitersOf(name, core::kMaxAsked);
  if (asked.empty() || !context_.nodes.IsUp(node)) return;
  const uint64_t id = ++last_round_;
  auto& slot = rounds_[id];
  slot = std::make_unique<Round>();
  slot->serial = id;
  slot->command = core::StoreTend{.op = 0, .name = name, .asked = std::move(asked)};
  slot->sent = context_.now;
  slot->least_token = context_.nodes.Proposal(context_.now);
  slot->answered = true;
  Send(*slot, node);
}

void Rounds::OnReply(const Sent& sent, Outcome& outcome) {
  const auto found = rounds_.find(sent.id);
  if (found == rounds_.end()) return;
  Round& round = *found->second;
  round.waiting &= ~Bit(sent.node);
  OnAnswer(round, sent, outcome);
  round.answers[sent.node] = std::move(outcome);
  if (std::holds_alternative<core::StoreForce>(round.command)) {
    const auto* done = std::get_if<core::ForceDone>(&*round.answers[sent.node]);
    round.told |= done != nullptr && done->result == core::ForceDone::Result::kTold;
    if (!round.told && sent.node == round.last_asked) SendNext(round);
  }
  if (!round.answered) TryAnswer(round, /*is_late=*/round.waiting == 0 || context_.now >= round.patience);
  if (round.waiting == 0) Finish(round);
}

// Takes an answer's news of waiters of this broker.
void Rounds::OnAnswer(Round& round, const Sent& sent, const Outcome& outcome) {
  std::vector<core::HolderView> next;
  bool look = false;
  if (const auto* tended = std::get_if<core::TendDone>(&outcome)) {
    const auto& tend = std::get<core::StoreTend>(round.command);
    candidates_.OnTended(sent.node, tend.name, tend.asked, *tended, sent.at);
    // Places that most servers have lost, the core asks for anew.
    if (tended->slot_was_gone && round.answered && !round.all_gone) candidates_.AskAllOf(sent.node, tend.name);
    look = tended->more;
  } else if (const auto* downgraded = std::get_if<core::DowngradeDone>(&outcome)) {
    const auto& command = std::get<core::StoreDowngrade>(round.command);
    Candidate* const candidate = candidates_.FindHeld({command.name, command.owner}, command.token);
    const bool is_more = round.answered && downgraded->result == core::DowngradeDone::Result::kDowngraded;
    if (candidate != nullptr && is_more) candidate->at[sent.node].is_behind = false;
    next = downgraded->next;
    look = downgraded->look;
  } else if (const auto* forced = std::get_if<core::ForceDone>(&outcome)) {
    next = forced->next;
    look = forced->look;
  } else if (const auto* adopted = std::get_if<core::AdoptDone>(&outcome)) {
    if (adopted->result != core::AdoptDone::Result::kAdopted) return;
    if (round.answered) return OnAdoptedLate(round, sent.node);
    if (context_.nodes.HasCountedSince(sent.node, sent.at)) round.adopted |= Bit(sent.node);
  }
  for (const core::HolderView& view : next) candidates_.OnVote(sent.node, sent.claim.name, view, sent.at);
  if (look) TendAgain(sent.node, sent.claim.name);
}

void Rounds::OnTick() {
  while (core::Timed* due = timers_.PopDue(context_.now)) {
    Round& round = static_cast<Round&>(*due);
    if (context_.now >= round.ask_next_at && !round.told) {
      SendNext(round);
      continue;
    }
    if (!round.answered) TryAnswer(round, /*is_late=*/true);
    if (round.answered) continue;
    if (context_.now < round.silence) {
      timers_.Set(round, round.silence);
    } else {
      GiveUp(round, "too few servers have answered");
    }
  }
}

void Rounds::Finish(Round& round) {
  if (!round.answered) TryAnswer(round, /*is_late=*/true);
  if (!round.answered) GiveUp(round, "too few servers have answered");
  timers_.Cancel(round);
  const uint64_t id = round.serial;
  rounds_.erase(id);
}

// ---- The answer ----

template <typename Result>
bool Rounds::Answer(Round& round, Result&& result) {
  round.answered = true;
  context_.Answer(round.op, std::forward<Result>(result));
  return true;
}

bool Rounds::GiveUp(Round& round, const char* why) {
  if (const core::StoreFailed* failed = Refusal(round)) return Answer(round, *failed);
  return Answer(round, core::StoreUnknown{std::string(why) + ": " + context_.nodes.Trouble()});
}

// Too many servers refuse for the rest to be enough.
const core::StoreFailed* Rounds::Refusal(const Round& round) const {
  const core::StoreFailed* refusal = nullptr;
  size_t refused = 0;
  for (const auto& answer : round.answers) {
    const auto* failed = answer ? std::get_if<core::StoreFailed>(&*answer) : nullptr;
    if (failed == nullptr) continue;
    ++refused;
    if (refusal == nullptr || failed->kind == core::FailureKind::kForeignKey) refusal = failed;
  }
  return refused > context_.nodes.size() - context_.nodes.quorum() ? refusal : nullptr;
}

template <typename T>
size_t Rounds::CountOf(const Round& round) const {
  return std::count_if(round.answers.begin(), round.answers.end(),
                       [](const auto& answer) { return answer && std::holds_alternative<T>(*answer); });
}

template <typename Done>
uint32_t Rounds::With(const Round& round, typename Done::Result result) const {
  uint32_t nodes = 0;
  for (NodeIndex node = 0; node < context_.nodes.size(); ++node) {
    const auto& answer = round.answers[node];
    const auto* done = answer ? std::get_if<Done>(&*answer) : nullptr;
    if (done != nullptr && done->result == result) nodes |= Bit(node);
  }
  return nodes;
}

void Rounds::TryAnswer(Round& round, bool is_late) {
  if (Refusal(round) != nullptr) return void(GiveUp(round, ""));
  if (std::holds_alternative<core::StoreTend>(round.command)) {
    AnswerTend(round, is_late);
  } else if (std::holds_alternative<core::StoreWatch>(round.command)) {
    AnswerWatch(round, is_late);
  } else if (std::holds_alternative<core::StoreDowngrade>(round.command)) {
    AnswerDowngrade(round, is_late);
  } else if (std::holds_alternative<core::StoreForce>(round.command)) {
    AnswerForce(round, is_late);
  } else if (std::holds_alternative<core::StoreAdopt>(round.command)) {
    AnswerAdopt(round, is_late);
  } else if (std::holds_alternative<core::StoreWanted>(round.command)) {
    AnswerWanted(round, is_late);
  }
}

// All are waited for a little: a free server brings the next look forward, whoever stands at one that answers sooner.
bool Rounds::AnswerTend(Round& round, bool is_late) {
  const auto& tend = std::get<core::StoreTend>(round.command);
  const size_t quorum = context_.nodes.quorum();
  if (CountOf<core::TendDone>(round) < quorum || !is_late) return false;
  struct Seen {
    core::HolderView view;
    size_t count = 0;
    Tokens tokens;
  };
  const auto is_vote = [&](const core::HolderView& holder) {
    const Candidate* const ours = candidates_.Find({tend.name, holder.owner});
    return ours != nullptr && ours->phase != Candidate::Phase::kHeld;
  };
  absl::btree_map<OwnerId, Seen> seen;
  std::vector<Duration> lefts;
  std::vector<NodeIndex> gone;
  for (NodeIndex node = 0; node < context_.nodes.size(); ++node) {
    const auto& answer = round.answers[node];
    const auto* done = answer ? std::get_if<core::TendDone>(&*answer) : nullptr;
    if (done == nullptr) continue;
    if (done->slot_was_gone) gone.push_back(node);
    // Votes for waiters of this broker, which give them up when they are too few, keep nobody from the lock.
    const bool votes = !done->holders.empty() && std::ranges::all_of(done->holders, is_vote);
    const Duration left = votes ? Duration::zero() : done->left.value_or(kFreeLook);
    lefts.push_back(done->slot_was_gone ? kFreeLook : left);
    for (const core::HolderView& holder : done->holders) {
      Seen& one = seen[holder.owner];
      if (one.count++ == 0) one.view = holder;
      one.tokens.Add(holder.token);
    }
  }
  core::TendDone merged;
  merged.slot_was_gone = round.all_gone = gone.size() >= quorum;
  if (round.all_gone) gone.clear();
  for (const NodeIndex node : gone) candidates_.AskAllOf(node, tend.name);
  for (const auto& [owner, one] : seen) {
    // One that this ballot has not elected has nothing yet.
    const Candidate* const ours = candidates_.Find({tend.name, owner});
    const bool is_elected = ours == nullptr || ours->phase == Candidate::Phase::kHeld;
    if (one.count < quorum || !is_elected) continue;
    core::HolderView& holder = merged.holders.emplace_back(one.view);
    holder.token = ours != nullptr ? ours->token : one.tokens.OfMost();
    holder.since = SinceOf(holder.token);
  }
  std::sort(lefts.begin(), lefts.end());
  merged.left = std::max<Duration>(lefts[quorum - 1], kFreeLook / 25);
  if (merged.holders.empty()) merged.held_off = context_.nodes.HeldOffFor(context_.now);
  return Answer(round, std::move(merged));
}

bool Rounds::AnswerWatch(Round& round, bool is_late) {
  if (CountOf<core::WatchDone>(round) < context_.nodes.quorum() || !is_late) return false;
  std::vector<core::LockView> views;
  for (const auto& answer : round.answers) {
    if (const auto* done = answer ? std::get_if<core::WatchDone>(&*answer) : nullptr) views.push_back(done->view);
  }
  return Answer(round, core::WatchDone{MergeViews(std::move(views), context_.nodes.size())});
}

bool Rounds::AnswerDowngrade(Round& round, bool) {
  using Result = core::DowngradeDone::Result;
  const size_t most_others = context_.nodes.size() - context_.nodes.quorum();
  const auto& downgrade = std::get<core::StoreDowngrade>(round.command);
  const uint32_t downgraded = With<core::DowngradeDone>(round, Result::kDowngraded);
  if (static_cast<size_t>(__builtin_popcount(downgraded)) >= context_.nodes.quorum()) {
    Candidate* const candidate = candidates_.FindHeld({downgrade.name, downgrade.owner}, downgrade.token);
    if (candidate != nullptr) candidates_.OnDowngraded(*candidate, downgrade.info, downgraded, round.sent);
    return Answer(round, core::DowngradeDone{.result = Result::kDowngraded,
                                             .look = false,
                                             .next = context_.TakeGrants(downgrade.name, round.sent)});
  }
  for (const Result result : {Result::kNotHolder, Result::kAnotherMode, Result::kElsewhere}) {
    if (static_cast<size_t>(__builtin_popcount(With<core::DowngradeDone>(round, result))) > most_others) {
      return Answer(round, core::DowngradeDone{.result = result, .look = false, .next = {}});
    }
  }
  return false;
}

bool Rounds::AnswerForce(Round& round, bool) {
  using Result = core::ForceDone::Result;
  const auto of = [&](Result result) -> size_t { return __builtin_popcount(With<core::ForceDone>(round, result)); };
  const auto answer = [&](Result result) {
    const LockName& name = std::get<core::StoreForce>(round.command).name;
    return Answer(round,
                  core::ForceDone{.result = result, .look = false, .next = context_.TakeGrants(name, round.sent)});
  };
  if (of(Result::kTold) > 0) return answer(Result::kTold);
  // The holder has lost q votes; the rest is asked all the same.
  if (of(Result::kReleased) >= context_.nodes.quorum()) return answer(Result::kReleased);
  if (round.waiting != 0 || round.unasked != 0) return false;
  if (of(Result::kReleased) + of(Result::kGone) < context_.nodes.quorum()) return false;
  return answer(of(Result::kReleased) > 0 ? Result::kReleased : Result::kGone);
}

void Rounds::HoldAdopted(const Round& round, const core::AdoptDone& merged) {
  const auto& adopt = std::get<core::StoreAdopt>(round.command);
  Debts::Due owed{.claim = {adopt.name, adopt.from}, .token = adopt.token, .life = merged.ttl + merged.lock_delay};
  if (Candidate* const former = candidates_.Find(owed.claim); former != nullptr) {
    owed.marks = former->marks;
    candidates_.Forget(*former);
  }
  Spec spec{.name = adopt.name,
            .owner = adopt.owner,
            .want = adopt.want,
            .ttl = merged.ttl,
            .lock_delay = merged.lock_delay,
            .max_hold = merged.max_hold,
            .min_hold = merged.min_hold,
            .info = adopt.info};
  const Asked asked = TakeMark(spec.info);
  spec.place = asked.place;
  spec.mark = asked.mark;
  for (NodeIndex node = 0; node < context_.nodes.size(); ++node) {
    if ((round.adopted & Bit(node)) == 0) debts_.OweOne(node, owed);
  }
  candidates_.Hold(std::move(spec), adopt.token, round.sent, merged.held_for, round.adopted);
}

bool Rounds::AnswerAdopt(Round& round, bool) {
  using Result = core::AdoptDone::Result;
  const auto& adopt = std::get<core::StoreAdopt>(round.command);
  AdoptAnswers found = MergeAdopts(adopt, round.answers, round.adopted, round.sent, context_);
  if (static_cast<size_t>(__builtin_popcount(round.adopted)) >= context_.nodes.quorum()) {
    found.merged.result = Result::kAdopted;
    HoldAdopted(round, found.merged);
    return Answer(round, found.merged);
  }
  const core::AdoptDone* const refusal = found.refusal;
  if (found.gone <= context_.nodes.size() - context_.nodes.quorum()) {
    if (CountOf<core::AcquireLate>(round) <= context_.nodes.size() - context_.nodes.quorum()) return false;
    return Answer(round, core::AcquireLate{});
  }
  // The later try has what this one has got; it may not have come to that server yet, and takes it from there.
  if (refusal != nullptr && refusal->result == Result::kLater) return Answer(round, *refusal);
  // A server or two may have taken it over, with the mark of this round.
  std::string info = adopt.info;
  debts_.OweAll({.claim = {adopt.name, adopt.owner}, .marks = Marks::Of(TakeMark(info).mark), .life = kOfStray},
                nullptr);
  return Answer(round, refusal != nullptr ? *refusal : core::AdoptDone{});
}

bool Rounds::AnswerWanted(Round& round, bool is_late) {
  const size_t count = CountOf<core::WantedDone>(round);
  if (count == 0 || (count < context_.nodes.quorum() && !is_late)) return false;
  core::WantedDone merged;
  for (const auto& answer : round.answers) {
    const auto* done = answer ? std::get_if<core::WantedDone>(&*answer) : nullptr;
    if (done == nullptr) continue;
    merged.is_held |= done->is_held;
    merged.queue_length = std::max(merged.queue_length, done->queue_length);
  }
  return Answer(round, merged);
}

// It is held, or refused, by now.
void Rounds::OnAdoptedLate(Round& round, NodeIndex node) {
  const auto& adopt = std::get<core::StoreAdopt>(round.command);
  Candidate* const candidate = candidates_.Find({adopt.name, adopt.owner});
  if (candidate == nullptr || candidate->token != adopt.token) return;
  candidate->at[node].token = adopt.token;
  candidate->at[node].from = round.sent;
  candidate->HasJoined(candidate->at[node], round.sent, context_.now);
}

}  // namespace distlock::store::ballot
