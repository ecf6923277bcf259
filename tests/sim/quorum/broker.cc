// SPDX-License-Identifier: Apache-2.0
#include "quorum/broker.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace distlock::sim::quorum {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = Request::State;

std::string BrokerId(int number) {
  std::string id = "00000000000000b0";
  id.back() = static_cast<char>('0' + number);
  return id;
}

ballot::Config WithBrokerId(ballot::Config config, int number) {
  config.broker_id = BrokerId(number);
  return config;
}

}  // namespace

Broker::Broker(Course& course, Dice& dice, const Weather& weather, const std::vector<std::unique_ptr<Server>>& servers,
               const Setting& setting, Judge* judge)
    : course_(course),
      dice_(dice),
      setting_(setting),
      judge_(judge),
      ballot_(WithBrokerId(setting.config, setting.number)) {
  for (size_t node = 0; node < servers.size(); ++node) {
    wires_.push_back(std::make_unique<Wire>(course, dice, weather, *servers[node], setting.number * 100 + 1, node,
                                            store::LockOptions{.broker_id = BrokerId(setting.number)},
                                            static_cast<Wire::Owner*>(this)));
  }
}

void Broker::Start() {
  for (auto& wire : wires_) wire->Connect();
}

std::vector<Wire*> Broker::wires() {
  std::vector<Wire*> all;
  for (auto& wire : wires_) all.push_back(wire.get());
  return all;
}

Instant Broker::TrueTime(Instant local) const {
  const Duration since = local.time_since_epoch() - setting_.clock.offset;
  return Instant(Duration(static_cast<int64_t>(static_cast<double>(since.count()) / (1 + setting_.clock.rate))));
}

uint64_t Broker::commands() const {
  uint64_t all = 0;
  for (const auto& wire : wires_) all += wire->commands();
  return all;
}

const Request* Broker::Find(const core::OwnerId& owner) const {
  const auto found = requests_.find(owner);
  return found == requests_.end() ? nullptr : found->second.get();
}

std::string Broker::Unfinished() const {
  std::string text;
  for (const auto& [owner, request] : requests_) {
    text += " #" + std::to_string(request->number) + " in state " + std::to_string(static_cast<int>(request->state));
  }
  return text;
}

// ---- The ballot ----

void Broker::OnInput(ballot::Input&& input) { Step(std::move(input)); }

void Broker::OnYielded(const core::OwnerId& owner, uint64_t token) {
  const Request* const request = Find(owner);
  if (request == nullptr || request->state != State::kHolding || request->token != token) return;
  if (LocalTime() < request->deadline) judge_->OnVoteYielded(*request);
}

void Broker::Step(ballot::Input&& input) {
  std::vector<ballot::Effect> effects;
  ballot_.Step(LocalTime(), std::move(input), effects);
  for (ballot::Effect& effect : effects) {
    if (auto* send = std::get_if<ballot::SendTo>(&effect)) wires_[send->node]->Send(send->op, send->command);
  }
  for (ballot::Effect& effect : effects) {
    auto* tell = std::get_if<ballot::TellCore>(&effect);
    if (tell == nullptr) continue;
    course_.After(Duration(0),
                  [this, told = std::make_shared<core::Input>(std::move(tell->input))] { OnCore(std::move(*told)); });
  }
  Wake();
}

void Broker::Wake() {
  const Instant due = ballot_.NextDeadline();
  if (due == core::kNever || due >= woken_) return;
  woken_ = due;
  // A timer of the loop comes a little late.
  course_.At(std::max(TrueTime(due), course_.now()) + std::chrono::microseconds(10), [this, due] {
    if (woken_ == due) woken_ = core::kNever;
    Step(ballot::Tick{});
  });
}

core::OpId Broker::NewOp(std::function<void(core::StoreReply&)> on_reply) {
  ops_[++last_op_] = {std::move(on_reply), LocalTime()};
  return last_op_;
}

void Broker::OnCore(core::Input&& input) {
  if (auto* reply = std::get_if<core::StoreReply>(&input)) {
    const auto found = ops_.find(reply->op);
    DISTLOCK_CHECK(found != ops_.end() && "answered once");
    const auto on_reply = std::move(found->second.on_reply);
    ops_.erase(found);
    on_reply(*reply);
  } else if (const auto* up = std::get_if<core::StoreUp>(&input)) {
    up_ = true;
    for (auto& [owner, request] : requests_) {
      if (request->state == State::kHolding && up->renew_all) Renew(*request);
      if (request->state == State::kAsking && request->op == 0) Ask(*request);
    }
    TendAll();
  } else if (std::holds_alternative<core::StoreDown>(input)) {
    up_ = false;
  } else if (std::holds_alternative<core::StoreClockStep>(input)) {
    for (auto& [owner, request] : requests_) {
      if (request->state == State::kHolding) Renew(*request);
    }
  } else if (const auto* notice = std::get_if<core::GrantNotice>(&input)) {
    if (notice->owner == core::OwnerId{}) return TendBy(notice->name, notice->ttl + milliseconds(3));
    const auto found = requests_.find(notice->owner);
    if (found == requests_.end()) return;
    Request& request = *found->second;
    if (request.state != State::kQueued) return;
    Grant(request, notice->token, *notice->counted_from + request.ttl - (request.ttl / 1000 + milliseconds(2)), true);
  }
}

// ---- Requests ----

void Broker::Begin(std::unique_ptr<Request> owned) {
  Request& request = *owned;
  request.began = course_.now();
  requests_[request.owner] = std::move(owned);
  judge_->Log("b" + std::to_string(setting_.number) + " begins #" + std::to_string(request.number));
  if (request.gives_up != core::kNever) {
    course_.At(request.gives_up, [this, owner = request.owner] {
      const auto found = requests_.find(owner);
      if (found == requests_.end()) return;
      Request& one = *found->second;
      if (one.state == State::kAsking || one.state == State::kQueued) GiveBack(one, /*withdraw=*/true);
    });
  }
  Ask(request);
}

void Broker::Ask(Request& request) {
  request.state = State::kAsking;
  request.op = 0;
  if (!up_) return;
  const Duration timeout = std::clamp<Duration>(request.ttl / 6, milliseconds(500), milliseconds(2500));
  const core::OwnerId owner = request.owner;
  const core::OpId op = NewOp(nullptr);
  const Instant sent = LocalTime();
  ops_[op].on_reply = [this, owner, op, sent](core::StoreReply& reply) {
    const auto found = requests_.find(owner);
    if (found != requests_.end()) OnAcquire(*found->second, op, reply, sent);
  };
  request.op = op;
  ++request.attempts;
  // The core asks again when an answer is overdue.
  course_.After(timeout, [this, owner, op] {
    const auto found = requests_.find(owner);
    if (found == requests_.end() || found->second->op != op || found->second->state != State::kAsking) return;
    Ask(*found->second);
  });
  Step(core::StoreCommand(core::StoreAcquire{.op = op,
                                             .name = request.name,
                                             .want = request.want,
                                             .owner = request.owner,
                                             .ttl = request.ttl,
                                             .lock_delay = request.delay,
                                             .run_before = LocalTime() + timeout,
                                             .wait = request.waits,
                                             .again = request.again,
                                             .info = "i;"}));
}

void Broker::OnAcquire(Request& request, core::OpId op, core::StoreReply& reply, Instant sent) {
  const bool is_current = request.op == op;
  if (is_current) request.op = 0;
  if (request.state != State::kAsking && request.state != State::kQueued) return;
  if (const auto* granted = std::get_if<core::AcquireGranted>(&reply.outcome)) {
    return Grant(request, granted->token, sent + request.ttl - (request.ttl / 1000 + milliseconds(2)), false);
  }
  if (request.state == State::kQueued) return;
  if (const auto* queued = std::get_if<core::AcquireQueued>(&reply.outcome)) {
    request.state = State::kQueued;
    if (request.acked == Instant{}) request.acked = course_.now();
    request.again = true;
    judge_->Log("#" + std::to_string(request.number) + " is queued");
    return TendBy(request.name,
                  std::min<Duration>(queued->left.value_or(milliseconds(50)) + milliseconds(3), seconds(10)));
  }
  if (!is_current) return;
  if (std::holds_alternative<core::AcquireHeld>(reply.outcome) && !request.waits) return Finish(request, "held");
  const auto* failed = std::get_if<core::StoreFailed>(&reply.outcome);
  const auto* unknown = std::get_if<core::StoreUnknown>(&reply.outcome);
  Retry(request, failed != nullptr ? failed->cause : unknown != nullptr ? unknown->cause : "late or held");
}

void Broker::Retry(Request& request, const std::string& why) {
  judge_->Log("#" + std::to_string(request.number) + " tries again: " + why);
  if (!request.waits && course_.now() > request.began + seconds(5)) return GiveBack(request, /*withdraw=*/true);
  request.op = 0;
  const Duration pause = dice_.Between(milliseconds(5), milliseconds(10) * (1 << std::min(request.attempts, 6)));
  course_.After(pause, [this, owner = request.owner] {
    const auto found = requests_.find(owner);
    if (found != requests_.end() && found->second->state == State::kAsking && found->second->op == 0) {
      Ask(*found->second);
    }
  });
}

void Broker::Grant(Request& request, uint64_t token, Instant deadline, bool second_hand) {
  const Duration enough = std::min<Duration>(setting_.config.validity, request.ttl / 3 * 2);
  if (LocalTime() >= deadline || (second_hand && deadline - LocalTime() < enough)) {
    judge_->Log("#" + std::to_string(request.number) + " finds its grant too old");
    return Ask(request);
  }
  request.state = State::kHolding;
  request.op = 0;
  request.token = token;
  request.deadline = deadline;
  request.granted = course_.now();
  const uint64_t tenure = ++request.tenure;
  judge_->OnGranted(request);
  RenewLater(request, request.ttl / 3);
  course_.After(request.hold, [this, owner = request.owner, tenure] {
    const auto found = requests_.find(owner);
    if (found == requests_.end() || found->second->tenure != tenure) return;
    if (found->second->state != State::kHolding) return;
    judge_->OnEnded(*found->second);
    GiveBack(*found->second, /*withdraw=*/false);
  });
}

void Broker::RenewLater(Request& request, Duration time) {
  course_.After(time, [this, owner = request.owner, tenure = request.tenure] {
    const auto found = requests_.find(owner);
    if (found == requests_.end() || found->second->tenure != tenure) return;
    if (found->second->state == State::kHolding) Renew(*found->second);
  });
  // The end of belief is noticed at once.
  course_.At(TrueTime(request.deadline), [this, owner = request.owner, tenure = request.tenure] {
    const auto found = requests_.find(owner);
    if (found == requests_.end() || found->second->tenure != tenure) return;
    Request& one = *found->second;
    if (one.state == State::kHolding && LocalTime() >= one.deadline) Lose(one, "could not be renewed in time");
  });
}

void Broker::Renew(Request& request) {
  if (LocalTime() >= request.deadline) return;
  const Instant sent = LocalTime();
  const core::OpId op = NewOp([this, owner = request.owner, tenure = request.tenure, sent](core::StoreReply& reply) {
    const auto found = requests_.find(owner);
    if (found == requests_.end() || found->second->tenure != tenure) return;
    if (found->second->state == State::kHolding) OnRenewed(*found->second, reply, sent);
  });
  core::StoreRenew renew{.op = op, .items = {}};
  renew.items.push_back({.name = request.name, .owner = request.owner, .token = request.token, .ttl = request.ttl});
  Step(core::StoreCommand(std::move(renew)));
}

void Broker::OnRenewed(Request& request, core::StoreReply& reply, Instant sent) {
  const auto* done = std::get_if<core::RenewDoneBatch>(&reply.outcome);
  const auto result = done == nullptr ? core::RenewResult::kUnanswered : done->results.front();
  if (LocalTime() >= request.deadline) return Lose(request, "renewed too late");
  if (result == core::RenewResult::kUnanswered) return RenewLater(request, request.ttl / 12);
  if (result != core::RenewResult::kRenewed) {
    return Lose(request, "the store says " + std::to_string(static_cast<int>(result)));
  }
  request.deadline = std::max(request.deadline, sent + request.ttl - (request.ttl / 1000 + milliseconds(2)));
  RenewLater(request, request.ttl / 3);
}

void Broker::Lose(Request& request, const std::string& why) {
  judge_->Log("#" + std::to_string(request.number) + " loses it: " + why);
  judge_->OnEnded(request);
  GiveBack(request, /*withdraw=*/false);
}

void Broker::GiveBack(Request& request, bool withdraw) {
  request.state = State::kReleasing;
  request.only_token = request.token;
  request.release_until = course_.now() + 2 * std::max<Duration>(request.ttl + request.delay, seconds(30)) + seconds(5);
  SendRelease(request, withdraw);
}

void Broker::SendRelease(Request& request, bool withdraw) {
  if (course_.now() >= request.release_until) return Finish(request, "given up");
  const core::OwnerId owner = request.owner;
  const auto again = [this, owner, withdraw](Duration time) {
    course_.After(time, [this, owner, withdraw] {
      const auto found = requests_.find(owner);
      if (found != requests_.end()) SendRelease(*found->second, withdraw);
    });
  };
  if (!up_) return again(milliseconds(200));
  const core::OpId op = NewOp([this, owner, withdraw, again, sent = LocalTime()](core::StoreReply& reply) {
    const auto* done = std::get_if<core::GiveBackDone>(&reply.outcome);
    for (const core::HolderView& next : done == nullptr ? std::vector<core::HolderView>{} : done->next) {
      const auto waiter = requests_.find(next.owner);
      if (waiter == requests_.end() || waiter->second->state != State::kQueued) continue;
      Grant(*waiter->second, next.token, sent + next.ttl - (next.ttl / 1000 + milliseconds(2)), false);
    }
    const auto found = requests_.find(owner);
    if (found == requests_.end()) return;
    if (done == nullptr) return again(milliseconds(100));
    Finish(*found->second, withdraw ? "withdrawn" : "released");
  });
  if (withdraw) {
    // As the core: a grant of a repeated request may be another broker's.
    Step(core::StoreCommand(core::StoreWithdraw{op, request.name, owner, core::IsRepeatable(owner)}));
  } else {
    Step(core::StoreCommand(core::StoreRelease{op, request.name, owner, request.only_token, request.delay}));
  }
}

void Broker::Finish(Request& request, const std::string& how) {
  request.state = State::kDone;
  judge_->OnDone(request, how);
  const core::OwnerId owner = request.owner;
  requests_.erase(owner);
}

// ---- Tends ----

void Broker::TendBy(const core::LockName& name, Duration time) {
  const uint64_t number = ++tends_[name];
  course_.After(std::min<Duration>(time, seconds(10)), [this, name, number] {
    if (tends_[name] == number) Tend(name);
  });
}

void Broker::TendAll() {
  std::vector<core::LockName> names;
  for (const auto& [owner, request] : requests_) {
    if (request->state == State::kQueued) names.push_back(request->name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  for (const auto& name : names) Tend(name);
}

void Broker::Tend(const core::LockName& name) {
  ++tends_[name];
  std::vector<core::OwnerId> asked;
  std::vector<std::pair<int, core::OwnerId>> line;
  for (const auto& [owner, request] : requests_) {
    if (request->state == State::kQueued && request->name == name) line.push_back({request->number, owner});
  }
  std::sort(line.begin(), line.end());
  for (const auto& [number, owner] : line) asked.push_back(owner);
  if (asked.empty()) return;
  if (!up_) return;
  const core::OpId op = NewOp([this, name](core::StoreReply& reply) {
    const auto* done = std::get_if<core::TendDone>(&reply.outcome);
    if (done == nullptr) return TendBy(name, milliseconds(80));
    if (done->slot_was_gone) {
      std::vector<Request*> waiting;
      for (auto& [owner, request] : requests_) {
        if (request->state == State::kQueued && request->name == name) waiting.push_back(request.get());
      }
      for (Request* request : waiting) Ask(*request);
      return;
    }
    TendBy(name, done->left.value_or(milliseconds(50)) + milliseconds(3));
  });
  Step(core::StoreCommand(core::StoreTend{op, name, std::move(asked)}));
}

}  // namespace distlock::sim::quorum
