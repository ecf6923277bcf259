// SPDX-License-Identifier: Apache-2.0
#include "store/redlock/redlock_store.h"

#include <algorithm>
#include <utility>

#include "store/redlock/ballot/merge.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr uint64_t kSeedStep = 1000;  // so that no two links of a store share their jitter
// Servers that are no members are asked again.
constexpr core::Duration kAskMarkEvery = std::chrono::seconds(1);
constexpr core::Duration kSameEnd = std::chrono::milliseconds(100);
constexpr core::Duration kListTimeout = std::chrono::seconds(5);

using MarkHow = VoteCodec::MarkHow;

std::vector<std::string> TextsOf(const std::vector<ServerAddress>& servers) {
  std::vector<std::string> texts;
  texts.reserve(servers.size());
  for (const ServerAddress& server : servers) texts.push_back(server.Text());
  return texts;
}

}  // namespace

ballot::Config RedlockStore::ConfigFor(const StoreOptions& options) {
  return {.broker_id = options.locks.broker_id,
          .nodes = options.url.servers.size(),
          .clock_drift_ppm = options.locks.clock_drift_ppm,
          .queue_slot = options.locks.queue_slot,
          .longest_ttl = options.locks.hold_off.kind == HoldOffOptions::Kind::kOff ? core::Duration::zero()
                                                                                   : options.locks.hold_off.longest_ttl,
          .node_timeout = options.node_timeout,
          .seed = options.seed};
}

StoreOptions RedlockStore::OptionsFor(ballot::NodeIndex index) {
  StoreOptions options = options_;
  options.url.address = options_.url.servers[index];
  options.url.topology = StoreUrl::Topology::kSingle;
  options.locks.hold_off.nodes = 1;
  options.locks.hold_off.server = options.url.address.Text();
  options.seed = (options_.seed + 1) * kSeedStep + index;
  options.on_node_status = [this, index](const NodeStatus& status) { OnNodeStatus(*nodes_[index], status); };
  return options;
}

RedlockStore::RedlockStore(const Network& network, const StoreOptions& options)
    : options_(options),
      timers_(network.timers),
      codec_(options.locks),
      ballot_(ConfigFor(options)),
      members_(TextsOf(options.url.servers)),
      timer_(network.timers->Make([this] { Step(ballot::Tick{}); })),
      deliver_timer_(network.timers->Make([this] { Deliver(); })),
      members_timer_(network.timers->Make([this] { ReportMembers(); })),
      pages_(network.timers) {
  const auto ttls = std::make_shared<AssertedTtls>();
  for (ballot::NodeIndex index = 0; index < options.url.servers.size(); ++index) {
    nodes_.push_back(std::make_unique<Node>(this, index));
    Node& node = *nodes_.back();
    node.told.node = index;
    node.server = std::make_unique<ServerNode>(network, options.url.servers[index], OptionsFor(index), &node,
                                               RedlockScripts(), ttls);
  }
}

void RedlockStore::Start(StoreListener* listener) {
  listener_ = listener;
  for (auto& node : nodes_) node->server->Start();
}

void RedlockStore::Stop() {
  listener_ = nullptr;
  timer_->Stop();
  deliver_timer_->Stop();
  members_timer_->Stop();
  for_core_.clear();
  for (auto& node : nodes_) node->server->Stop();
  pages_.Stop();
}

bool RedlockStore::AllServersAreUp() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) { return node->is_in; });
}

// ---- Between the core and the ballot ----

void RedlockStore::Submit(core::StoreCommand&& command) {
  submitting_ = true;
  Step(std::move(command));
  submitting_ = false;
}

void RedlockStore::Flush() {
  for (auto& node : nodes_) node->server->commands().Flush();
}

void RedlockStore::Step(ballot::Input&& input) {
  if (listener_ == nullptr) return;
  std::vector<ballot::Effect> effects;
  ballot_.Step(timers_->Now(), std::move(input), effects);
  // All that is sent leaves before the core hears of anything: it may send more.
  for (ballot::Effect& effect : effects) {
    if (const auto* send = std::get_if<ballot::SendTo>(&effect)) Send(*send);
    if (auto* tell = std::get_if<ballot::TellCore>(&effect)) for_core_.push_back(std::move(tell->input));
  }
  SetTimer();
  CountRounds();
  if (submitting_) {
    if (!for_core_.empty()) deliver_timer_->Start(core::Duration::zero());
    return;
  }
  Flush();
  Deliver();
}

void RedlockStore::CountRounds() {
  const auto& rounds = ballot_.rounds();
  if (!options_.quorum_events.on_rounds || rounds == counted_) return;
  for (size_t kind = 0; kind < rounds.size(); ++kind) {
    const uint64_t more = rounds[kind] - counted_[kind];
    if (more != 0) options_.quorum_events.on_rounds(static_cast<QuorumRound>(kind), more);
  }
  counted_ = rounds;
}

void RedlockStore::Deliver() {
  if (std::exchange(delivering_, true)) return;
  while (!for_core_.empty() && listener_ != nullptr) {
    core::Input input = std::move(for_core_.front());
    for_core_.pop_front();
    listener_->OnStoreInput(std::move(input));
  }
  delivering_ = false;
}

void RedlockStore::SetTimer() {
  const core::Instant due = ballot_.NextDeadline();
  if (due == core::kNever) return timer_->Stop();
  timer_->Start(std::max(core::Duration::zero(), due - timers_->Now()));
}

void RedlockStore::Send(const ballot::SendTo& send) {
  ServerNode& server = *nodes_[send.node]->server;
  if (const auto* plain = std::get_if<ballot::Plain>(&send.command)) {
    core::StoreCommand command = plain->command;
    std::visit([&](auto& one) { one.op = send.op; }, command);
    return server.commands().Submit(std::move(command), plain->least_token);
  }
  VoteCodec::Encoded encoded = codec_.Encode(send.command, server.clock(), server.trusts_publish());
  server.commands().Call(*encoded.script, std::move(encoded.bytes),
                         [this, op = send.op, index = send.node, script = encoded.script](const Answer& answer) {
                           VoteCodec::Decoded decoded = VoteCodec::Decode(*script, answer);
                           SyncFitness(*nodes_[index]);
                           Step(ballot::NodeReply{op, std::move(decoded.outcome), decoded.time});
                           if (decoded.malformed) {
                             nodes_[index]->server->LeaveServer("the server answered in an unknown shape");
                           }
                         });
}

// ---- The servers ----

void RedlockStore::OnNodeInput(Node& node, core::Input&& input) {
  SyncFitness(node);
  if (auto* reply = std::get_if<core::StoreReply>(&input)) {
    const ballot::NodeOp op = reply->op;
    Step(ballot::NodeReply{op, OutcomeOf(std::move(*reply)), {}});
  } else if (const auto* up = std::get_if<core::StoreUp>(&input)) {
    node.forgot |= up->renew_all;
    AskMark(node, "", MarkHow::kFirst);
  } else if (auto* down = std::get_if<core::StoreDown>(&input)) {
    members_.OnDown(node.index);
    node.is_in = node.asked = false;
    Step(ballot::NodeDown{node.index, Cat(options_.url.servers[node.index].Text(), ": ", down->cause)});
  } else if (const auto* step = std::get_if<core::StoreClockStep>(&input)) {
    Step(ballot::NodeClockStep{node.index, step->by, node.server->clock()});
    TellStatus(node);
  } else if (const auto* grant = std::get_if<core::GrantNotice>(&input)) {
    const core::Duration ahead = node.server->clock().Ahead(grant->since, timers_->Now());
    Step(ballot::NodeNotice{node.index, *grant, ahead});
  } else {
    // The hand-off channel of one server, a lock that is watched, a lock that is taken by force.
    for_core_.push_back(std::move(input));
    Deliver();
  }
}

void RedlockStore::OnNodeStatus(Node& node, const NodeStatus& status) {
  node.status = status;
  node.status.address = options_.url.servers[node.index].Text();
  if (!status.replicas.empty() && !std::exchange(node.warned, true) && options_.on_warning) {
    options_.on_warning(
        Cat(node.status.address,
            " has replicas: if one of them takes its place, it may have forgotten votes without anybody "
            "knowing; a quorum needs none, so detach them"));
  }
  SyncFitness(node);
  TellStatus(node);
}

// ---- Members ----

void RedlockStore::AskMark(Node& node, std::string_view mark, MarkHow how) {
  if (!node.server->up() || std::exchange(node.asked, true)) return;
  node.server->commands().Call(lua::kRedlockMember,
                               codec_.EncodeMember(mark, how, node.server->identity().DataIdentity()),
                               [this, &node](const Answer& answer) { OnMark(node, answer); });
  node.server->commands().Flush();
  if (!members_timer_->active()) members_timer_->Start(kAskMarkEvery);
}

void RedlockStore::OnMark(Node& node, const Answer& answer) {
  if (!node.asked || !node.server->up() || listener_ == nullptr) return;
  node.asked = false;
  const auto member = VoteCodec::DecodeMember(answer);
  if (!member.ok()) {
    return Report(
        absl::UnavailableError(Cat(options_.url.servers[node.index].Text(),
                                   ": to which quorum it belongs cannot be read: ", member.status().message())));
  }
  const std::string& mark = member->mark;
  const bool is_news = options_.quorum_check == StoreOptions::QuorumCheck::kNew && !marked_ && !mark.empty();
  // Another broker, started beside this one with the same option, has marked them, or is about to.
  if (is_news && member->is_new && mark == members_.mark()) marks_ = false;
  if (is_news && marks_) {
    return Report(absl::FailedPreconditionError(
        Cat("--quorum-new says that nobody can hold a lock of these servers, but ",
            options_.url.servers[node.index].Text(), " belongs to a quorum already: start without --quorum-new")));
  }
  node.seen = member->seen;
  members_.OnMark(node.index, mark);
  DecideMembers();
}

void RedlockStore::DecideMembers() {
  if (options_.quorum_check == StoreOptions::QuorumCheck::kReplace && !marked_) return ReplaceMarks();
  for (const auto& node : nodes_) {
    if (!node->told.misfit.empty()) return;  // the same server twice
  }
  const bool is_first = !members_.established();
  MarkServers(members_.ToMark(), is_first && options_.quorum_is_new ? MarkHow::kNew : MarkHow::kFirst);
  for (auto& node : nodes_) {
    if (node->is_in || !node->server->up() || !members_.IsMember(node->index)) continue;
    node->is_in = true;
    node->told_why.clear();
    Step(ballot::NodeUp{node->index, std::exchange(node->forgot, false), node->server->clock()});
    TellStatus(*node);
  }
}

void RedlockStore::MarkServers(uint32_t nodes, MarkHow how) {
  if (!marks_) return;
  for (auto& node : nodes_) {
    if ((nodes >> node->index & 1) == 0 || node->asked) continue;
    marked_ = true;
    AskMark(*node, members_.mark(), how);
  }
}

void RedlockStore::ReplaceMarks() {
  if (!members_.all_seen() || replacing_) return;
  const auto is_member = [this](const auto& node) { return members_.IsMember(node->index); };
  if (std::all_of(nodes_.begin(), nodes_.end(), is_member)) {
    marked_ = true;  // by an earlier call
    return DecideMembers();
  }
  for (const auto& node : nodes_) {
    if (!options_.quiet_for) break;
    const std::string server = options_.url.servers[node->index].Text();
    const std::string why = ballot::WhyNotQuiet(server, node->seen, *options_.quiet_for);
    if (!why.empty()) return Report(absl::FailedPreconditionError(why));
  }
  replacing_ = true;
  for (auto& node : nodes_) {
    node->server->queries().List(
        "", "", 1, "", kListTimeout,
        [this, &node = *node](const absl::StatusOr<LockPage>& page) { OnHeldLocks(node, page); });
  }
}

void RedlockStore::OnHeldLocks(const Node& node, const absl::StatusOr<LockPage>& page) {
  if (!page.ok()) return Report(page.status());
  if (!page->locks.empty()) {
    return Report(absl::FailedPreconditionError(
        Cat(options_.url.servers[node.index].Text(), " still has the lock '", page->locks.front().name.escaped(),
            "': stop all other brokers, and call again when every lock's ttl is over")));
  }
  if (++without_locks_ == nodes_.size()) MarkServers(~uint32_t{0}, MarkHow::kReplace);
}

void RedlockStore::ReportMembers() {
  if (replacing_ && !marked_) return members_timer_->Start(kAskMarkEvery);
  const bool replaces = options_.quorum_check == StoreOptions::QuorumCheck::kReplace;
  bool all_in = true;
  for (auto& node : nodes_) {
    if (!node->server->up() || node->is_in) continue;
    all_in = false;
    const std::string why = members_.WhyNot(node->index);
    if (!why.empty() && node->told_why != why) {
      node->told_why = why;
      Step(ballot::NodeDown{node->index, why});
      const bool is_anothers = members_.IsAnothers(node->index);
      if (!is_anothers || !replaces) Report(is_anothers ? absl::AlreadyExistsError(why) : absl::UnavailableError(why));
    }
    AskMark(*node, "", MarkHow::kFirst);
  }
  if (!all_in) members_timer_->Start(kAskMarkEvery);
}

void RedlockStore::Report(const absl::Status& problem) {
  if (options_.on_problem) {
    options_.on_problem(absl::Status(problem.code(), Cat(options_.url.Masked(), ": ", problem.message())));
  }
}

std::string RedlockStore::Misfit(const Node& node) const {
  if (!node.server->up()) return "";
  for (const auto& other : nodes_) {
    if (other->index >= node.index || !other->server->up()) continue;
    if (other->server->identity().run_id == node.server->identity().run_id) {
      return Cat(options_.url.servers[node.index].Text(), " is the same server as ",
                 options_.url.servers[other->index].Text());
    }
  }
  return "";
}

void RedlockStore::SyncFitness(Node& node) {
  if (!node.server->up()) return;
  const core::Duration left = node.server->checks().HoldOffLeft();
  ballot::NodeFitness fitness{.node = node.index,
                              .held_off = node.server->checks().census().holds_off(),
                              .held_off_until = left == core::Duration::max() ? core::kNever : timers_->Now() + left,
                              .misfit = Misfit(node)};
  // Each look at the server's clock shows another end.
  const bool is_same_end = fitness.held_off_until == node.told.held_off_until ||
                           (fitness.held_off_until != core::kNever && node.told.held_off_until != core::kNever &&
                            std::chrono::abs(fitness.held_off_until - node.told.held_off_until) < kSameEnd);
  const bool is_same = fitness.held_off == node.told.held_off && fitness.misfit == node.told.misfit;
  if (is_same && (is_same_end || !fitness.held_off)) return;
  if (!fitness.misfit.empty() && fitness.misfit != node.told.misfit) {
    Report(absl::FailedPreconditionError(Cat(fitness.misfit, "; name each server once")));
  }
  node.told = fitness;
  Step(std::move(fitness));
}

void RedlockStore::TellStatus(const Node& node) {
  if (!options_.on_node_status) return;
  NodeStatus status = node.status;
  const core::Instant now = timers_->Now();
  status.number = static_cast<int>(node.index);
  status.independent = true;
  status.not_counted = ballot_.nodes().WhyNot(node.index, now);
  if (const core::Duration left = ballot_.nodes().SuspectFor(node.index, now);
      left > core::Duration::zero() && status.state != NodeStatus::State::kDown) {
    status.state = NodeStatus::State::kHeldOff;
    if (status.hold_off_left) status.hold_off_left = std::max(*status.hold_off_left, left);
  }
  if (status.state != NodeStatus::State::kDown && !node.is_in) status.not_counted = members_.WhyNot(node.index);
  status.clock_skew = ballot_.nodes().Skew(node.index, now);
  options_.on_node_status(status);
}

// ---- Queries ----

LockPages::Servers RedlockStore::Servers() const {
  LockPages::Servers servers;
  for (const auto& node : nodes_) servers.push_back(node->server.get());
  return servers;
}

void RedlockStore::Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
                           std::function<void(absl::StatusOr<LockView>)> done) {
  pages_.Inspect(Servers(), name, max_waiters, timeout, [this, done = std::move(done)](absl::StatusOr<LockView> view) {
    if (view.ok()) view->held_off = ballot_.nodes().HeldOffFor(timers_->Now());
    done(std::move(view));
  });
}

void RedlockStore::List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size,
                        std::string page_token, core::Duration timeout,
                        std::function<void(absl::StatusOr<LockPage>)> done) {
  pages_.List(Servers(), {std::move(escaped_namespace), std::move(escaped_key_prefix), page_size}, page_token, timeout,
              [this, done = std::move(done)](absl::StatusOr<LockPage> page) {
                if (page.ok()) page->held_off = ballot_.nodes().HeldOffFor(timers_->Now());
                done(std::move(page));
              });
}

}  // namespace distlock::store
