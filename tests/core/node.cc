// SPDX-License-Identifier: Apache-2.0
#include "node.h"

#include <algorithm>

namespace distlock::core {
namespace {

constexpr int kMostTicks = 6;   // in one instant
constexpr int kMostTends = 12;  // of one lock in one second of a calm world

OpId OpOf(const StoreCommand& command) {
  return std::visit(
      [](const auto& in) -> OpId {
        if constexpr (requires { in.op; }) return in.op;
        return 0;
      },
      command);
}

std::string Say(const StoreCommand& command) {
  static const char* const kVerbs[] = {"acquire", "renew", "release", "withdraw", "tend", "reconnect"};
  std::string text = std::string(kVerbs[command.index()]) + " #" + std::to_string(OpOf(command));
  std::visit(
      [&](const auto& in) {
        if constexpr (requires { in.name; }) text += " " + in.name.escaped();
        if constexpr (requires { in.owner; }) text += " " + Short(in.owner);
        if constexpr (requires { in.items; }) {
          for (const auto& item : in.items) text += " " + Short(item.owner);
        }
      },
      command);
  return text;
}

std::string Say(const ModelStore::Outcome& outcome) {
  static const char* const kWords[] = {"unknown", "failed", "GRANTED", "QUEUED", "HELD", "LATE",
                                       "FULL",    "RENEWED", "given back", "TENDED"};
  std::string text = kWords[outcome.index()];
  if (const auto* done = std::get_if<GiveBackDone>(&outcome)) {
    text += done->was_holder ? " held" : done->was_waiter ? " waited" : " gone";
    if (done->next) text += ", next " + Short(done->next->owner);
  }
  if (const auto* done = std::get_if<TendDone>(&outcome)) {
    text += done->slot_was_gone ? " slot gone" : done->holder ? " " + Short(done->holder->owner) : " free";
  }
  if (const auto* done = std::get_if<RenewDoneBatch>(&outcome)) {
    for (const auto result : done->results) text += " " + std::to_string(static_cast<int>(result));
  }
  return text;
}

}  // namespace

Node::Node(Env& env, int index, std::function<void(const Notify&)> tell, std::function<void()> died)
    : env_(env), index_(index), tell_(std::move(tell)), died_(std::move(died)) {}

void Node::Start() {
  ++life_;
  number_ = life_ * 100 + static_cast<uint64_t>(index_) + 1;
  BrokerConfig config;
  config.validity = env_.temper.validity;
  config.queue_slot = env_.temper.queue_slot;
  config.seed = env_.dice.Next();
  broker_ = std::make_unique<Broker>(config);
  subscribed_ = true;
  ghost_ = false;
  Connect(env_.Delay());
}

void Node::Crash() {
  env_.Log([&] { return "broker " + std::to_string(index_) + " dies"; });
  CutWire();
  broker_.reset();
  for (const Input& input : inbox_) {
    if (const auto* ended = std::get_if<StreamEnded>(&input)) env_.judge->StreamOver(ended->session);
  }
  inbox_.clear();
  paused_until_ = {};
  subscribed_ = false;
  ghost_ = false;
  ++channel_life_;
  ++timer_;
  timer_at_ = kNever;
  ++life_;
  died_();
}

void Node::Pause(Duration time) {
  env_.Log([&] { return "broker " + std::to_string(index_) + " pauses"; });
  paused_until_ = env_.now() + time;
  env_.Trouble(paused_until_);
  env_.time.At(paused_until_, [this, life = life_] {
    if (life != life_ || env_.now() < paused_until_) return;
    while (!inbox_.empty() && broker_ != nullptr) {
      Input next = std::move(inbox_.front());
      inbox_.pop_front();
      Step(std::move(next));
    }
    if (broker_ != nullptr) Step(Tick{});
  });
}

void Node::Post(Input input) {
  if (broker_ == nullptr) return;
  if (env_.now() < paused_until_ || !inbox_.empty()) return inbox_.push_back(std::move(input));
  Step(std::move(input));
}

void Node::Step(Input input) {
  if (const auto* acquire = std::get_if<Acquire>(&input)) env_.judge->Asked(index_, *acquire);
  if (const auto* release = std::get_if<Release>(&input)) env_.judge->Called(release->session, release->request);
  if (const auto* renew = std::get_if<Renew>(&input)) env_.judge->Called(renew->session, renew->request);
  const auto* ended = std::get_if<StreamEnded>(&input);
  const SessionId over = ended != nullptr ? ended->session : 0;
  std::vector<Effect> effects;
  broker_->Step(env_.now(), std::move(input), effects);
  Perform(effects);
  if (over != 0) env_.judge->StreamOver(over);
  if (broker_ != nullptr) ArmTimer();
}

void Node::Perform(std::vector<Effect>& effects) {
  bool drained = false;
  for (Effect& effect : effects) {
    if (auto* command = std::get_if<StoreCommand>(&effect)) Submit(std::move(*command));
    if (auto* notify = std::get_if<Notify>(&effect)) tell_(*notify);
    drained |= std::holds_alternative<DrainComplete>(effect);
  }
  if (drained) Crash();
}

void Node::ArmTimer() {
  const Instant next = broker_->NextDeadline();
  if (next == timer_at_) return;
  timer_at_ = next;
  ++timer_;
  if (next == kNever) return;
  const Duration lateness = env_.dice.Chance(0.3) ? env_.dice.Between({}, milliseconds(1)) : Duration::zero();
  const Instant at = next <= env_.now() ? env_.now() : next + lateness;
  env_.time.At(at, [this, timer = timer_] {
    if (timer != timer_ || broker_ == nullptr) return;
    timer_at_ = kNever;
    if (env_.now() < paused_until_) return;  // the end of the pause ticks
    ticks_ = ticked_ == env_.now() ? ticks_ + 1 : 0;
    ticked_ = env_.now();
    if (ticks_ > kMostTicks) return env_.Fail("a broker asks for the same instant again and again");
    Step(Tick{});
  });
}

void Node::CountCommand(const StoreCommand& command) {
  const auto* tend = std::get_if<StoreTend>(&command);
  if (tend == nullptr || !env_.temper.calm) return;
  auto& [second, count] = tends_[tend->name];
  const int64_t now = env_.now().time_since_epoch() / seconds(1);
  count = second == now ? count + 1 : 1;
  second = now;
  if (count > kMostTends) env_.Fail("a waiting lock costs the store too much");
}

void Node::Submit(StoreCommand command) {
  if (std::holds_alternative<StoreReconnect>(command)) {
    // Not from inside the Step that wants it.
    env_.time.At(env_.now(), [this, wire = wire_] {
      if (wire != nullptr && wire == wire_) BreakLink("silence");
    });
    return;
  }
  CountCommand(command);
  if (wire_ == nullptr) {
    env_.time.At(env_.now(), [this, life = life_, op = OpOf(command)] {
      if (life == life_) Post(StoreReply{op, {}, StoreFailed{FailureKind::kNotSent, "not connected"}});
    });
    return;
  }
  env_.Log([&] { return "  b" + std::to_string(index_) + " sends " + Say(command); });
  wire_->unanswered.push_back(OpOf(command));
  wire_->sent.push_back(std::move(command));
  wire_->last_arrival = std::max(wire_->last_arrival, env_.now() + env_.Delay());
  env_.time.At(wire_->last_arrival, [this, wire = wire_] { Execute(wire); });
}

void Node::Execute(const std::shared_ptr<Wire>& wire) {
  const Instant free = std::max(wire->held_until, env_.store_paused_until);
  if (env_.now() < free) return env_.time.At(free, [this, wire] { Execute(wire); });
  if (wire->sent.empty()) return;  // lost with its connection
  const StoreCommand command = std::move(wire->sent.front());
  wire->sent.pop_front();
  const StoreTime time = env_.StoreNow();
  env_.store->Advance(time);
  ModelStore::Outcome outcome = env_.store->Run(wire->broker, command);
  env_.Log([&] {
    return "    store: " + std::string(wire->broken ? "(late) " : "") + "b" + std::to_string(index_) + " " + Say(command) +
           " -> " + Say(outcome);
  });
  if (wire->broken) return env_.Trouble(env_.now());
  wire->last_reply = std::max(wire->last_reply, env_.now() + env_.Delay());
  env_.time.At(wire->last_reply, [this, wire, op = OpOf(command), time, outcome = std::move(outcome)]() mutable {
    if (wire->broken) return;
    wire->unanswered.pop_front();
    Post(StoreReply{op, time, std::move(outcome)});
  });
}

// Of what is on its way, the first commands still run, perhaps late, and the others never.
void Node::CutWire() {
  if (wire_ == nullptr) return;
  wire_->broken = true;
  if (!wire_->sent.empty()) {
    const auto kept = static_cast<size_t>(env_.dice.Roll(static_cast<int>(wire_->sent.size()) + 1));
    wire_->sent.resize(kept);
    if (env_.dice.Chance(0.5)) wire_->held_until = env_.now() + env_.dice.Between({}, milliseconds(1500));
  }
  wire_.reset();
}

void Node::BreakLink(const std::string& cause) {
  if (wire_ == nullptr || broker_ == nullptr) return;
  env_.Log([&] { return "b" + std::to_string(index_) + " link breaks: " + cause; });
  const std::shared_ptr<Wire> wire = wire_;
  const size_t unrun = wire->sent.size();
  CutWire();
  // The last of those that never ran may be known never to have left.
  size_t unsent = unrun - wire->sent.size();
  unsent = unsent == 0 ? 0 : static_cast<size_t>(env_.dice.Roll(static_cast<int>(unsent) + 1));
  Connect(env_.dice.Between(milliseconds(1), env_.trouble ? seconds(2) : milliseconds(20)));
  for (size_t left = wire->unanswered.size(); left > 0; --left) {
    const OpId op = wire->unanswered.front();
    wire->unanswered.pop_front();
    if (left > unsent) {
      Post(StoreReply{op, {}, StoreUnknown{cause}});
    } else {
      Post(StoreReply{op, {}, StoreFailed{FailureKind::kNotSent, cause}});
    }
  }
  Post(StoreDown{cause});
}

void Node::Connect(Duration delay) {
  env_.time.After(delay, [this, life = life_] {
    if (life != life_) return;
    if (env_.now() < env_.store_paused_until) return Connect(env_.store_paused_until - env_.now() + microseconds(1));
    const StoreTime time = env_.StoreNow();
    env_.time.After(env_.Delay(), [this, life, time] {
      if (life != life_) return;
      wire_ = std::make_shared<Wire>();
      wire_->broker = number_;
      env_.Log([&] { return "b" + std::to_string(index_) + " is connected"; });
      env_.Trouble(env_.now());
      Post(StoreUp{time});
    });
  });
}

void Node::BreakChannel() {
  if (broker_ == nullptr || !subscribed_) return;
  env_.Log([&] { return "b" + std::to_string(index_) + " loses its channel"; });
  subscribed_ = false;
  ghost_ = env_.dice.Chance(0.5);
  ++channel_life_;
  env_.time.After(env_.dice.Between(milliseconds(1), seconds(3)), [this, life = life_] {
    if (life != life_) return;
    subscribed_ = true;
    ghost_ = false;
    env_.Trouble(env_.now());
    Post(ChannelUp{});
  });
}

bool Node::Hear(uint64_t number, const GrantNotice& notice) {
  if (broker_ == nullptr || number != number_) return false;
  if (!subscribed_) return ghost_;
  if (env_.trouble && env_.dice.Chance(env_.temper.lost_notices)) {
    env_.Trouble(env_.now());
    return true;
  }
  last_notice_ = std::max(last_notice_, env_.now() + env_.Delay());
  env_.time.At(last_notice_, [this, life = channel_life_, notice] {
    if (life != channel_life_) return;
    env_.Log([&] { return "  b" + std::to_string(index_) + " hears of " + Short(notice.owner); });
    Post(notice);
  });
  return true;
}

}  // namespace distlock::core
