// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/ballot.h"

#include <algorithm>
#include <string>
#include <utility>

#include "store/wanted_by.h"

namespace distlock::store::ballot {
namespace {

constexpr Duration kFirstPatience = std::chrono::milliseconds(300);

// Marks stand in front of it.
template <typename Command>
void WriteWantedBy(Command& command, const std::string& broker_id) {
  if (std::exchange(command.tell_wanted, false)) command.info = WithWantedBy(broker_id, command.info);
}

}  // namespace

Ballot::Ballot(const Config& config)
    : context_(config),
      debts_(context_, *this),
      candidates_(context_, debts_),
      renewals_(context_, candidates_),
      rounds_(context_, candidates_, debts_) {}

void Ballot::Step(Instant now, Input&& input, std::vector<Effect>& effects) {
  context_.Begin(now, effects);
  std::visit([this](auto& in) { Handle(in); }, input);
  if (const uint32_t begun = context_.nodes.Refresh(context_.now); begun != 0) candidates_.OnCounting(begun);
  if (context_.now >= up_at_) TellState(false);
  debts_.OnTick();
  candidates_.OnTick();
  renewals_.OnTick();
  rounds_.OnTick();
}

Instant Ballot::NextDeadline() const {
  return std::min({debts_.NextDeadline(), candidates_.NextDeadline(), renewals_.NextDeadline(), rounds_.NextDeadline(),
                   up_at_, context_.nodes.NextChange(context_.now)});
}

// ---- The core ----

void Ballot::Handle(core::StoreCommand& command) {
  if (auto* acquire = std::get_if<core::StoreAcquire>(&command)) {
    WriteWantedBy(*acquire, context_.config.broker_id);
    candidates_.Acquire(*acquire);
  } else if (auto* renew = std::get_if<core::StoreRenew>(&command)) {
    renewals_.Renew(std::move(*renew));
  } else if (const auto* release = std::get_if<core::StoreRelease>(&command)) {
    GiveBack(release->op, {.claim = {release->name, release->owner},
                           .token = release->token,
                           .block = release->block,
                           .ends_min_hold = release->ends_min_hold});
  } else if (const auto* withdraw = std::get_if<core::StoreWithdraw>(&command)) {
    GiveBack(withdraw->op, {.claim = {withdraw->name, withdraw->owner}, .keep_grant = withdraw->keep_grant});
  } else if (const auto* all = std::get_if<core::StoreAcquireAll>(&command)) {
    // StoreTraits::takes_many_at_once is false.
    context_.Answer(all->op, core::AcquireAllDone{});
  } else {
    const core::OpId op = std::visit([](const auto& one) { return one.op; }, command);
    if (auto* adopt = std::get_if<core::StoreAdopt>(&command)) WriteWantedBy(*adopt, context_.config.broker_id);
    rounds_.Begin(op, std::move(command));
  }
}

void Ballot::GiveBack(core::OpId op, Debts::Due due) {
  Candidate* const candidate = candidates_.Find(due.claim);
  const uint64_t token = due.token;
  const bool keep_grant = due.keep_grant;
  due.life = std::chrono::seconds(1);
  // Finished candidates have left their debts already.
  if (candidate == nullptr) return debts_.Owe(op, due, nullptr);
  const bool holds = candidate->phase == Candidate::Phase::kHeld;
  if (token != 0 && holds && candidate->token < token) return context_.Answer(op, core::GiveBackDone{});
  // A late release of an earlier grant leaves this one alone.
  if (token != 0 && candidate->token > token) return debts_.Owe(op, due, nullptr);
  due.life = candidate->spec.ttl + candidate->spec.lock_delay;
  due.held = holds && !keep_grant && context_.now < candidate->deadline;
  // Votes that were not counted are under other tokens.
  due.marks = candidate->marks;
  due.keep_grant = keep_grant && candidate->token != 0;
  debts_.Owe(op, due, candidate);
  candidates_.Forget(*candidate);
}

// Up once a quorum can be reached; the first time all are waited for a little, so that the first grants are at each.
void Ballot::TellState(bool renew_all) {
  const size_t count = context_.nodes.CountUp();
  const bool enough = count >= context_.nodes.quorum();
  if (!enough) {
    up_at_ = core::kNever;
    if (told_up_ || !told_down_) context_.Tell(core::StoreDown{context_.nodes.Trouble()});
    told_up_ = false;
    told_down_ = true;
    return;
  }
  const bool was_up = told_up_;
  if (!was_up && up_at_ == core::kNever) up_at_ = context_.now + (was_ever_up_ ? Duration::zero() : kFirstPatience);
  if (!was_up && count < context_.nodes.size() && context_.now < up_at_) return;
  if (was_up && !renew_all) return;
  told_up_ = was_ever_up_ = true;
  up_at_ = core::kNever;
  context_.Tell(core::StoreUp{.renew_all = renew_all});
}

// ---- The servers ----

void Ballot::Handle(NodeUp& in) {
  context_.nodes.Up(in.node, in.clock);
  context_.nodes.Refresh(context_.now);
  // Debts go first: nothing of a candidate that is over may come back.
  debts_.OnNodeUp(in.node);
  candidates_.OnNodeUp(in.node, in.forgot);
  TellState(in.forgot);
}

void Ballot::Handle(NodeDown& in) {
  context_.nodes.Down(in.node, std::move(in.cause));
  TellState(false);
}

void Ballot::Handle(NodeFitness& in) {
  context_.nodes.Judge(in);
  TellState(false);
}

void Ballot::Handle(NodeClockStep& in) {
  context_.nodes.Set(in.node, in.clock);
  OnClockStep(in.node, in.by);
}

void Ballot::OnClockStep(NodeIndex node, Duration by) {
  context_.nodes.Suspect(node, context_.now);
  context_.nodes.Refresh(context_.now);
  // Its keys end sooner than was promised, unless they are renewed.
  if (told_up_) context_.Tell(core::StoreClockStep{by});
}

void Ballot::Handle(NodeReply& in) {
  const std::optional<Sent> sent = context_.Take(in.op);
  if (!sent) return;
  if (in.time.us > 0) {
    if (const auto step = context_.nodes.Learn(sent->node, sent->at, context_.now, in.time)) {
      OnClockStep(sent->node, *step);
    }
    if (const uint32_t begun = context_.nodes.Refresh(context_.now); begun != 0) candidates_.OnCounting(begun);
  }
  switch (sent->by) {
    case Sent::By::kVote:
    case Sent::By::kConfirm:
    case Sent::By::kJoin:
    case Sent::By::kYield:
      candidates_.OnReply(*sent, in.outcome, in.time);
      if (const auto* gave = std::get_if<GaveBack>(&in.outcome); gave != nullptr && gave->look) {
        rounds_.TendAgain(sent->node, sent->claim.name);
      }
      return;
    case Sent::By::kDebt:
      // The answer of the release may tell who is next.
      context_.HoldGrants(true);
      debts_.OnReply(*sent, in.outcome);
      return context_.HoldGrants(false);
    case Sent::By::kRound:
      context_.HoldGrants(true);
      rounds_.OnReply(*sent, in.outcome);
      return context_.HoldGrants(false);
    case Sent::By::kRenewal:
      return renewals_.OnReply(*sent, in.outcome);
    case Sent::By::kNobody:
      return;
  }
}

void Ballot::OnNext(NodeIndex node, const LockName& name, Instant sent, const std::vector<core::HolderView>& next,
                    bool look) {
  for (const core::HolderView& view : next) candidates_.OnVote(node, name, view, sent);
  if (look) rounds_.TendAgain(node, name);
}

void Ballot::Handle(NodeNotice& in) {
  const core::GrantNotice& notice = in.notice;
  // Its clock was set forward, and nobody has looked since: a key may have ended early, and its vote be this one. The
  // core hears of it from the look.
  if (in.ahead > ServerClock::kTolerance) {
    context_.nodes.Suspect(in.node, context_.now);
    context_.nodes.Refresh(context_.now);
  }
  if (notice.owner != OwnerId{}) {
    core::HolderView vote;
    vote.owner = notice.owner;
    vote.token = notice.token;
    vote.since = notice.since;
    vote.ttl = notice.ttl;
    return candidates_.OnVote(in.node, notice.name, vote, std::nullopt);
  }
  // The lock is free there for a waiter of this broker, or will be when the block ends.
  if (notice.ttl == Duration::zero()) return rounds_.TendAgain(in.node, notice.name);
  context_.Tell(core::GrantNotice(notice));
}

}  // namespace distlock::store::ballot
