// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/cluster_nodes.h"

#include <algorithm>
#include <utility>

#include "store/cluster/cluster_fitness.h"
#include "store/cluster/redirect.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr uint64_t kSeedStep = 1000;  // so that no two links of a store share their jitter
constexpr core::Duration kIdle = std::chrono::seconds(10);
// When a node does not tell it. A primary that has lost touch with most others goes on for up to 1.5 of it, since it
// pings each of them after half of it and counts from there; and for a turn of its timer.
constexpr core::Duration kUsualNodeTimeout = std::chrono::seconds(15);
constexpr core::Duration kTurn = std::chrono::seconds(1);
// Whom a seed that does not answer must not keep from being asked: the nodes that are up.
constexpr core::Duration kShortPatience = std::chrono::milliseconds(500);

}  // namespace

ClusterNodes::ClusterNodes(const Network& network, const StoreOptions& options, Owner* owner)
    : network_(network),
      options_(options),
      owner_(owner),
      refresh_(options.seed),
      random_(options.seed),
      timer_(network.timers->Make([this] { Wake(); })) {}

ClusterNodes::~ClusterNodes() { Stop(); }

void ClusterNodes::Start() {
  started_ = true;
  SetTimer();
}

void ClusterNodes::Stop() {
  started_ = false;
  timer_->Stop();
  if (scout_) scout_->Stop();
  for (const auto& member : members_) {
    if (member) member->node->Stop();
  }
}

ServerNode* ClusterNodes::Node(NodeNumber number) const {
  return number < members_.size() && members_[number] ? members_[number]->node.get() : nullptr;
}

bool ClusterNodes::any_up() const {
  return std::ranges::any_of(members_, [](const auto& member) { return member && member->up; });
}

bool ClusterNodes::all_up() const {
  return has_map_ && std::ranges::all_of(members_, [this](const auto& member) {
           return !member || member->up || map_.nodes()[member->number]->slots == 0;
         });
}

// ---- The members ----

void ClusterNodes::Moved(Slot slot, const ServerAddress& to, NodeNumber by) {
  map_.Patch(slot, to);
  prefers_ = by;
  Follow();
  Doubt();
}

NodeNumber ClusterNodes::NodeAt(const ServerAddress& address) {
  const NodeNumber number = map_.NodeAt(address);
  Follow();
  return number;
}

void ClusterNodes::Follow() {
  const core::Instant now = network_.timers->Now();
  const auto known = static_cast<NodeNumber>(map_.nodes().size());
  for (NodeNumber number = 0; number < known; ++number) {
    const auto& node = map_.nodes()[number];
    if (!node) continue;
    if (Node(number) == nullptr) Add(number);
    Member& member = *members_[number];
    if (member.address != node->address) {
      member.address = node->address;
      member.node->MoveTo(node->address);
    }
    if (node->slots > 0) {
      // It had slots, none, and has some again: it may have been a replica meanwhile that missed the latest grants.
      if (std::exchange(member.idle_since, std::nullopt) && member.lowest) {
        member.later = true;
        if (member.up) {
          member.node->LeaveServer("it has slots again, and may have forgotten locks meanwhile");
        } else {
          // It refused us while it was a replica, so the next attempt may be far.
          member.node->Hurry();
        }
      }
      if (node->replicas > 0) member.node->checks().CountServers(node->replicas + 1);
    } else if (!member.idle_since) {
      member.idle_since = now;
    }
    // A node that has lost its last slot keeps its place: it is left soon, or gets others.
    if (node->slots > 0 && (member.lowest != node->lowest || member.highest != node->highest)) {
      member.lowest = node->lowest;
      member.highest = node->highest;
      member.node->Place({TagOf(*node->lowest), TagOf(*node->highest)});
    }
  }
  for (const auto& member : members_) {
    if (member && !member->started) {
      member->started = true;
      member->node->Start();
    }
  }
  SetTimer();
}

void ClusterNodes::Add(NodeNumber number) {
  if (members_.size() <= number) members_.resize(size_t{number} + 1);
  auto member = std::make_unique<Member>(this, number);
  member->address = map_.nodes()[number]->address;
  member->later = has_map_;
  member->node = std::make_unique<ServerNode>(network_, member->address, OptionsOf(number), member.get(),
                                              std::vector<const lua::ScriptSource*>{}, ttls_);
  member->node->Place({});
  if (member->later) member->node->AwaitOthers();
  members_[number] = std::move(member);
}

// Its texts name the one node.
StoreOptions ClusterNodes::OptionsOf(NodeNumber number) {
  StoreOptions options = options_;
  options.url.topology = StoreUrl::Topology::kSingle;
  options.url.seeds.clear();
  options.url.address = map_.nodes()[number]->address;
  options.seed = (options_.seed + 1) * kSeedStep + number;
  options.locks.hold_off.unguarded = node_timeout_.value_or(kUsualNodeTimeout) * 3 / 2 + kTurn;
  options.locks.hold_off.node_timeout = node_timeout_;
  options.on_warning = [this](const std::string& text) { Warn(text); };
  if (options_.on_node_status) {
    options.on_node_status = [this, number](const NodeStatus& status) { TellStatus(number, status); };
  }
  return options;
}

void ClusterNodes::TellStatus(NodeNumber number, NodeStatus status) {
  status.number = number;
  if (const auto& node = map_.nodes()[number]) status.address = node->address.Text();
  const core::Instant now = network_.timers->Now();
  std::vector<core::Duration> offsets;
  for (const auto& member : members_) {
    if (member && member->up && member->node->clock().known()) offsets.push_back(member->node->clock().Offset(now));
  }
  const ServerNode* const node = Node(number);
  if (node != nullptr && node->clock().known() && !offsets.empty()) {
    status.clock_skew = node->clock().Offset(now) - MedianOffset(offsets);
  }
  options_.on_node_status(status);
}

void ClusterNodes::OnInput(Member& member, core::Input&& input) {
  if (auto* up = std::get_if<core::StoreUp>(&input)) {
    member.up = true;
    // It has just taken a part over, and may not know the latest grants of it.
    up->renew_all |= std::exchange(member.later, false);
  } else if (const auto* down = std::get_if<core::StoreDown>(&input)) {
    if (std::exchange(member.up, false)) Doubt();
    trouble_ = Cat(member.address.Text(), ": ", down->cause);
  }
  owner_->OnNodeInput(member.number, std::move(input));
}

void ClusterNodes::OnMoved(const Member& member, const std::string& error) {
  const auto redirect = ParseRedirect(error, member.address);
  if (redirect && redirect->to) return Moved(redirect->slot, *redirect->to, member.number);
  Doubt();
}

void ClusterNodes::RetireIdle() {
  const core::Instant now = network_.timers->Now();
  const auto known = static_cast<NodeNumber>(members_.size());
  for (NodeNumber number = 0; number < known; ++number) {
    const auto& member = members_[number];
    if (member && member->idle_since && member->out == 0 && now - *member->idle_since >= kIdle) Retire(number);
  }
}

void ClusterNodes::Retire(NodeNumber number) {
  auto member = std::move(members_[number]);
  member->node->Stop();
  ended_.push_back(std::move(member));
  map_.Forget(number);
  if (options_.on_node_status) options_.on_node_status({.number = number, .gone = true});
  if (prefers_ == number) prefers_.reset();
  if (asked_ == number) OnReport(absl::UnavailableError("the node has no slots any more"));
}

// ---- The map ----

void ClusterNodes::Doubt() {
  if (!started_) return;
  refresh_.Want(network_.timers->Now());
  SetTimer();
}

void ClusterNodes::SetTimer() {
  if (!started_) return;
  const core::Instant now = network_.timers->Now();
  core::Instant due = refresh_.due();
  for (const auto& member : members_) {
    if (member && member->idle_since) due = std::min(due, std::max(now, *member->idle_since + kIdle));
  }
  if (!ended_.empty() || !ended_scouts_.empty()) due = now;
  if (due == core::kNever) return timer_->Stop();
  timer_->Start(std::max(core::Duration::zero(), due - now));
}

void ClusterNodes::Wake() {
  ended_.clear();
  ended_scouts_.clear();
  RetireIdle();
  if (refresh_.due() <= network_.timers->Now()) Ask();
  SetTimer();
}

void ClusterNodes::Ask() {
  refresh_.Asked(network_.timers->Now());
  const auto answer = [this, ask = ++ask_](absl::StatusOr<ClusterReport> report) {
    if (started_ && ask == ask_) OnReport(std::move(report));
  };
  std::vector<NodeNumber> up;
  for (const auto& member : members_) {
    if (member && member->up) up.push_back(member->number);
  }
  asked_.reset();
  // One that has lost touch with all others may have been the first that was asked, and then it is the only one known.
  const bool astray = map_.covered() < kSlots;
  asked_seed_ = up.empty() || (astray && !asked_seed_);
  if (!asked_seed_) {
    const bool knows = prefers_ && std::ranges::find(up, *prefers_) != up.end();
    asked_ = knows ? *prefers_ : up[random_() % up.size()];
    prefers_.reset();
    return AskForSlots(members_[*asked_]->node->sender(), members_[*asked_]->address, answer);
  }
  // The seeds, and whoever was a node once.
  std::vector<ServerAddress> known = options_.url.seeds;
  for (const auto& member : members_) {
    if (member && std::ranges::find(known, member->address) == known.end()) known.push_back(member->address);
  }
  LinkOptions link{
      .address = known[next_seed_++ % known.size()],
      .credentials = options_.credentials,
      .connect_timeout = up.empty() ? options_.connect_timeout : std::min(options_.connect_timeout, kShortPatience),
      .seed = options_.seed};
  if (!link.credentials) {
    link.credentials = [of_url = Credentials{options_.url.user, options_.url.password}] { return of_url; };
  }
  const std::string at = link.address.Text();
  scout_ = std::make_unique<Scout>(network_, std::move(link), [answer, at](absl::StatusOr<ClusterReport> report) {
    if (!report.ok()) report = absl::Status(report.status().code(), Cat(at, ": ", report.status().message()));
    answer(std::move(report));
  });
  scout_->Start();
}

void ClusterNodes::OnReport(absl::StatusOr<ClusterReport> report) {
  using Refresh = ClusterEvents::Refresh;
  ++ask_;
  asked_.reset();
  if (scout_) {
    scout_->Stop();
    ended_scouts_.push_back(std::move(scout_));
  }
  Refresh result = Refresh::kFailed;
  if (!report.ok()) {
    if (!any_up()) {
      trouble_ = std::string(report.status().message());
      Report(report.status());
    }
  } else {
    // Before any node is made: it needs to know the node-timeout.
    if (report->node_timeout) node_timeout_ = report->node_timeout;
    const auto verdict = map_.Adopt(report->slots, report->from);
    if (verdict == SlotMap::Verdict::kAdopted) result = Refresh::kAdopted;
    if (verdict == SlotMap::Verdict::kDoubted) result = Refresh::kDoubted;
    if (verdict == SlotMap::Verdict::kEmpty) {
      trouble_ =
          Cat(report->from, " knows of no slots that are served; create the Cluster, or ask another of its nodes");
      Report(absl::UnavailableError(trouble_));
    }
  }
  if (!started_) return;
  if (options_.cluster_events.on_refresh) options_.cluster_events.on_refresh(result);
  const bool adopted = result == Refresh::kAdopted;
  if (adopted) {
    Follow();
    if (!std::exchange(has_map_, true)) Judge(*report);
  }
  if (!started_) return;  // whoever heard of a problem has stopped the store
  refresh_.Answered(network_.timers->Now(), adopted, Unserved());
  SetTimer();
  if (adopted) owner_->OnNodesChanged();
}

bool ClusterNodes::Unserved() const { return map_.covered() < kSlots || !all_up(); }

void ClusterNodes::Judge(const ClusterReport& report) {
  const Fitness fitness =
      JudgeCluster(report, {.usual_ttl = options_.usual_ttl, .wait_replicas = options_.wait_replicas});
  if (!fitness.status.ok()) Report(fitness.status);
  for (const std::string& warning : fitness.warnings) Warn(warning);
}

// ---- For people ----

void ClusterNodes::Report(const absl::Status& why) {
  std::string text = Cat(options_.url.Masked(), ": ", why.message());
  if (std::exchange(reported_, text) == text || !options_.on_problem) return;
  options_.on_problem(absl::Status(why.code(), text));
}

void ClusterNodes::Warn(const std::string& text) {
  if (options_.on_warning && warned_.insert(text).second) options_.on_warning(text);
}

}  // namespace distlock::store
