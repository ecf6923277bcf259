// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/cluster_commands.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/check.h"
#include "store/cluster/redirect.h"
#include "store/text.h"

namespace distlock::store {
namespace {

using core::FailureKind;
using core::StoreFailed;
using Step = LockLanes::Step;

// Commands for one lock. REQUIRES: not StoreAcquireAll, whose locks have several slots; of a renewal one item.
const core::LockName& LockOf(const core::StoreCommand& command) {
  return std::visit(
      [](const auto& one) -> const core::LockName& {
        using Command = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<Command, core::StoreRenew>) {
          return one.items.front().name;
        } else if constexpr (std::is_same_v<Command, core::StoreAcquireAll>) {
          DISTLOCK_CHECK(false && "a Cluster takes locks one by one");
          return one.items.front().name;
        } else {
          return one.name;
        }
      },
      command);
}

core::OpId OpOf(const core::StoreCommand& command) {
  return std::visit([](const auto& one) { return one.op; }, command);
}

void SetOp(core::StoreCommand& command, core::OpId op) {
  std::visit([op](auto& one) { one.op = op; }, command);
}

StoreFailed Unavailable(std::string_view cause) { return {FailureKind::kUnavailable, std::string(cause)}; }

}  // namespace

ClusterCommands::ClusterCommands(const std::shared_ptr<Timers>& timers, const std::string& key_prefix,
                                 ClusterNodes* nodes, Pass pass)
    : nodes_(nodes), pass_(std::move(pass)), key_head_(Cat(key_prefix, ":{")), late_timer_(timers->Make([this] {
        for (core::StoreReply& reply : std::exchange(late_, {})) OnReply(std::move(reply));
      })) {}

Slot ClusterCommands::SlotOfLock(const core::LockName& lock) const {
  return SlotOf(Cat(key_head_, lock.escaped(), "}"));
}

void ClusterCommands::Stop() {
  late_timer_->Stop();
  late_.clear();
}

// ---- Out ----

void ClusterCommands::Submit(core::StoreCommand&& command) {
  const core::OpId asked = OpOf(command);
  auto* const renew = std::get_if<core::StoreRenew>(&command);
  if (renew == nullptr) return Enter({.command = std::move(command), .asked = asked});
  Renewal& renewal = renewals_[asked];
  renewal.left = renew->items.size();
  renewal.done.results.resize(renew->items.size(), core::RenewResult::kUnanswered);
  for (size_t i = 0; i < renew->items.size(); ++i) {
    core::StoreRenew one;
    one.items.push_back(std::move(renew->items[i]));
    Enter({.command = std::move(one), .asked = asked, .item = i});
  }
}

void ClusterCommands::Enter(Out&& out) {
  const LockLanes::CommandId id = ++last_id_;
  SetOp(out.command, id);
  const core::LockName& lock = LockOf(out.command);
  out.slot = SlotOfLock(lock);
  const NodeNumber node = nodes_->At(out.slot);
  const auto [entry, _] = out_.emplace(id, std::make_unique<Out>(std::move(out)));
  if (lanes_.Enter(LockOf(entry->second->command), id, node)) Send(id, node, false);
}

void ClusterCommands::Send(LockLanes::CommandId id, NodeNumber number, bool asking) {
  Out& out = *out_.at(id);
  ServerNode* const node = nodes_->Node(number);
  out.at = node == nullptr ? kNoNode : number;
  if (node == nullptr) {
    const std::string cause =
        number == kNoNode && nodes_->any_up() ? Cat("no node of the Cluster has slot ", out.slot) : nodes_->trouble();
    late_.push_back({id, StoreFailed{FailureKind::kNotSent, cause}});
    if (!late_timer_->active()) late_timer_->Start(core::Duration::zero());
    return;
  }
  nodes_->Took(number);
  node->commands().SubmitAlone(out.command, asking);
  if (std::ranges::find(touched_, number) == touched_.end()) touched_.push_back(number);
}

void ClusterCommands::Flush() { FlushTouched(); }

void ClusterCommands::FlushTouched() {
  for (const NodeNumber number : std::exchange(touched_, {})) {
    if (ServerNode* const node = nodes_->Node(number); node != nullptr) node->commands().Flush();
  }
}

// ---- Back ----

ClusterCommands::Out ClusterCommands::Take(LockLanes::CommandId id) {
  const auto found = out_.find(id);
  DISTLOCK_CHECK(found != out_.end());
  Out out = std::move(*found->second);
  out_.erase(found);
  return out;
}

void ClusterCommands::OnReply(core::StoreReply&& reply) {
  const LockLanes::CommandId id = reply.op;
  const Out out = Take(id);
  if (out.at != kNoNode) nodes_->Ended(out.at);
  LockLanes::Steps steps;
  lanes_.Answered(LockOf(out.command), id, nodes_->At(out.slot), steps);
  Perform(steps);
  Answer(out, std::move(reply));
}

bool ClusterCommands::OnRedirect(NodeNumber from, core::OpId op, std::string_view error) {
  const auto redirect = ParseRedirect(error, nodes_->Address(from));
  if (!redirect) return false;
  nodes_->Count(redirect->kind);
  using Kind = Redirect::Kind;
  Out& out = *out_.at(op);
  const bool circular = redirect->to == nodes_->Address(from);
  if (redirect->kind == Kind::kTryAgain || redirect->kind == Kind::kClusterDown || !redirect->to || circular) {
    if (redirect->kind != Kind::kTryAgain) nodes_->Doubt();
    if (circular) nodes_->Node(from)->LeaveServer(Cat("it answers ", error, ", which is where it is itself"));
    OnReply({op, Unavailable(error)});
    return true;
  }
  std::optional<NodeNumber> ask_at;
  if (redirect->kind == Kind::kAsk) {
    ask_at = nodes_->NodeAt(*redirect->to);
  } else {
    nodes_->Moved(redirect->slot, *redirect->to, from);
  }
  nodes_->Ended(from);
  LockLanes::Steps steps;
  lanes_.Redirected(LockOf(out.command), op, ask_at, nodes_->At(out.slot), steps);
  Perform(steps);
  return true;
}

void ClusterCommands::Perform(const LockLanes::Steps& steps) {
  if (steps.empty()) return;
  std::vector<Out> failed;
  for (const Step& step : steps) {
    if (step.what == Step::What::kFail) {
      failed.push_back(Take(step.id));
    } else {
      Send(step.id, step.node, step.what == Step::What::kSendAsking);
    }
  }
  FlushTouched();
  for (const Out& out : failed) {
    Answer(out, {0, Unavailable("the lock's slot moves from node to node; the command was not run")});
  }
}

void ClusterCommands::Answer(const Out& out, core::StoreReply&& reply) {
  reply.op = out.asked;
  if (std::holds_alternative<core::StoreRenew>(out.command)) return AnswerItem(out, std::move(reply));
  pass_(std::move(reply));
}

void ClusterCommands::AnswerItem(const Out& out, core::StoreReply&& reply) {
  const auto found = renewals_.find(out.asked);
  DISTLOCK_CHECK(found != renewals_.end());
  core::RenewDoneBatch& done = found->second.done;
  if (const auto* one = std::get_if<core::RenewDoneBatch>(&reply.outcome)) {
    done.results[out.item] = one->results.front();
    if (!one->hold_left.empty()) {
      done.hold_left.resize(done.results.size(), core::Duration::max());
      done.hold_left[out.item] = one->hold_left.front();
    }
    if (done.trouble.empty()) done.trouble = one->trouble;
  } else if (const auto* failed = std::get_if<StoreFailed>(&reply.outcome)) {
    done.trouble = failed->cause;
  } else if (const auto* unknown = std::get_if<core::StoreUnknown>(&reply.outcome)) {
    done.trouble = unknown->cause;
  }
  if (--found->second.left > 0) return;
  core::StoreReply whole{out.asked, std::move(done)};
  renewals_.erase(found);
  pass_(std::move(whole));
}

}  // namespace distlock::store
