// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/ballot/debts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/limits.h"

namespace distlock::store::ballot {
namespace {

constexpr Duration kRetry = std::chrono::milliseconds(100);

}  // namespace

void Debts::Owe(core::OpId op, const Due& due, const Candidate* candidate) {
  if (op != 0) {
    Call& call = calls_[due.claim];
    if (call.serial == 0) call.serial = ++last_serial_;
    call.ops.push_back(op);
    call.due = due;
    call.acked = 0;
    call.answered = false;
    call.released = call.withdrawn = 0;
    call.blocked_for = {};
    call.begun = context_.now;
    call.until = context_.now + core::kAttemptMax;
    call.patience = context_.now + context_.Trips(kPatienceTrips);
    call_timers_.Set(call, call.patience);
  }
  for (NodeIndex node = 0; node < context_.nodes.size(); ++node) {
    Put(node, due, candidate == nullptr ? Instant{} : candidate->at[node].may_run_until);
  }
}

void Debts::OweOne(NodeIndex node, const Due& due, Instant may_run_until) { Put(node, due, may_run_until); }

void Debts::Put(NodeIndex node, const Due& due, Instant may_run_until) {
  Debt& debt = nodes_[node][due.claim];
  if (debt.serial == 0) debt.serial = ++last_serial_;
  debt.node = node;
  debt.may_run_until = std::max(debt.may_run_until, may_run_until);
  Merge(debt, due);
  debt.is_done = false;
  const Duration life = std::max(due.life, context_.config.queue_slot);
  debt.until = std::max({debt.until, context_.now + 2 * life, debt.may_run_until + 2 * life});
  Send(debt);
}

// An unconfirmed earlier debt is not forgotten for what is owed now.
void Debts::Merge(Debt& debt, const Due& due) {
  const bool is_new = debt.due.claim.owner == OwnerId{};
  // One command spares grants, or it does not.
  if (!is_new && !debt.is_done && due.keep_grant && !debt.due.keep_grant) return;
  const Due before = std::exchange(debt.due, due);
  if (is_new || before.keep_grant != due.keep_grant) return;
  debt.due.token = std::max(debt.due.token, before.token);
  debt.due.marks.Add(before.marks);
  debt.due.block = std::max(debt.due.block, before.block);
  debt.due.ends_min_hold &= before.ends_min_hold;
}

void Debts::Send(Debt& debt) {
  debt.attempt = 0;
  debt.retry_at = core::kNever;
  if (context_.nodes.IsUp(debt.node)) {
    const Due& due = debt.due;
    debt.attempt = ++last_attempt_;
    context_.Send({.by = Sent::By::kDebt, .node = debt.node, .claim = due.claim, .id = debt.attempt},
                  ReleaseNamed{.name = due.claim.name,
                               .owner = due.claim.owner,
                               .token = due.token,
                               .marks = due.marks,
                               .block = due.block,
                               .ends_min_hold = due.ends_min_hold,
                               .keep_grant = due.keep_grant,
                               .least_token = context_.nodes.Proposal(context_.now)});
  }
  Arm(debt);
}

void Debts::Arm(Debt& debt) {
  debt_timers_.Set(debt, debt.attempt != 0 ? core::kNever : std::min(debt.until, debt.retry_at));
}

void Debts::OnMayRun(NodeIndex node, const Claim& claim, Instant until) {
  const auto found = nodes_[node].find(claim);
  if (found != nodes_[node].end()) found->second.may_run_until = std::max(found->second.may_run_until, until);
}

void Debts::OnNodeUp(NodeIndex node) {
  for (auto& [claim, debt] : nodes_[node]) {
    const bool is_early = debt.is_done && debt.retry_at != core::kNever && context_.now < debt.retry_at;
    if (!is_early) Send(debt);
  }
}

void Debts::OnReply(const Sent& sent, Outcome& outcome) {
  auto* gave = std::get_if<GaveBack>(&outcome);
  if (gave != nullptr) news_.OnNext(sent.node, sent.claim.name, sent.at, gave->next, gave->look);
  const auto found = nodes_[sent.node].find(sent.claim);
  if (found == nodes_[sent.node].end() || found->second.attempt != sent.id) return;
  Debt& debt = found->second;
  debt.attempt = 0;
  if (gave != nullptr) return OnGaveBack(debt, sent, *gave);
  const auto* failed = std::get_if<core::StoreFailed>(&outcome);
  if (failed != nullptr && failed->kind == core::FailureKind::kForeignKey) {
    Ack(sent.node, sent.claim, {});
    return MarkPaid(sent.node, sent.claim);
  }
  // A server that is down is told when it is up.
  debt.retry_at = context_.nodes.IsUp(sent.node) ? context_.now + kRetry : core::kNever;
  Arm(debt);
}

void Debts::OnGaveBack(Debt& debt, const Sent& sent, const GaveBack& gave) {
  const Claim claim = debt.due.claim;
  if (debt.may_run_until > sent.at) {
    debt.is_done = true;
    debt.retry_at = std::max(context_.now, debt.may_run_until);
    debt.may_run_until = {};
    Arm(debt);
    news_.OnSettled(sent.node, claim);
    return Ack(sent.node, claim, gave);
  }
  MarkPaid(sent.node, claim);
  Ack(sent.node, claim, gave);
}

// By value: it may be the key of what is erased.
void Debts::MarkPaid(NodeIndex node, Claim claim) {  // NOLINT(performance-unnecessary-value-param)
  const auto found = nodes_[node].find(claim);
  debt_timers_.Cancel(found->second);
  nodes_[node].erase(found);
  news_.OnSettled(node, claim);
}

// By value: it may be the key of what is erased.
void Debts::Forget(Claim claim) {  // NOLINT(performance-unnecessary-value-param)
  const auto found = calls_.find(claim);
  call_timers_.Cancel(found->second);
  calls_.erase(found);
}

void Debts::Ack(NodeIndex node, const Claim& claim, const GaveBack& gave) {
  const auto found = calls_.find(claim);
  if (found == calls_.end() || (found->second.acked & Bit(node)) != 0) return;
  Call& call = found->second;
  call.acked |= Bit(node);
  call.released += gave.was_holder ? 1 : 0;
  call.withdrawn += gave.was_waiter ? 1 : 0;
  call.blocked_for = std::max(call.blocked_for, gave.blocked_for);
  TryAnswer(call);
  if (call.answered && static_cast<size_t>(__builtin_popcount(call.acked)) == context_.nodes.size()) Forget(claim);
}

void Debts::TryAnswer(Call& call) {
  const size_t acked = __builtin_popcount(call.acked);
  const size_t released = call.released;
  const size_t quorum = context_.nodes.quorum();
  const size_t withdrawn = call.withdrawn;
  const size_t silent = context_.nodes.size() - acked;
  const auto is_sure = [&](size_t count) { return count >= quorum || count + silent < quorum; };
  const bool surely = (call.due.held && released > 0) || (is_sure(released) && is_sure(withdrawn));
  if (call.answered || acked < quorum || (!surely && context_.now < call.patience)) return;
  call.answered = true;
  const bool was_holder = released > 0 && released + silent >= quorum;
  const bool was_waiter = withdrawn >= quorum;
  for (const core::OpId op : std::exchange(call.ops, {})) {
    context_.Answer(op, core::GiveBackDone{.was_holder = was_holder,
                                           .was_waiter = was_waiter,
                                           .blocked_for = call.blocked_for,
                                           .next = context_.TakeGrants(call.due.claim.name, call.begun)});
  }
}

void Debts::OnTick() {
  while (core::Timed* due = call_timers_.PopDue(context_.now)) {
    Call& call = static_cast<Call&>(*due);
    TryAnswer(call);
    if (context_.now < call.until) {
      call_timers_.Set(call, call.until);
      continue;
    }
    const std::string cause = std::to_string(__builtin_popcount(call.acked)) + " of " +
                              std::to_string(context_.nodes.size()) + " servers have confirmed it";
    for (const core::OpId op : call.ops) context_.Answer(op, core::StoreUnknown{cause});
    Forget(call.due.claim);
  }
  while (core::Timed* due = debt_timers_.PopDue(context_.now)) {
    Debt& debt = static_cast<Debt&>(*due);
    context_.now >= debt.until ? MarkPaid(debt.node, debt.due.claim) : Send(debt);
  }
}

size_t Debts::size() const {
  size_t size = 0;
  for (const auto& node : nodes_) size += node.size();
  return size;
}

}  // namespace distlock::store::ballot
