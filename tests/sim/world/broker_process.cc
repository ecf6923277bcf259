// SPDX-License-Identifier: Apache-2.0
#include "world/broker_process.h"

#include <cstdio>

namespace distlock::sim {
namespace {

// More wake-ups in one instant mean that a deadline stands still.
constexpr int kMostTicks = 200;

}  // namespace

BrokerProcess::BrokerProcess(Env& env, int number, std::function<StoreProcess&()> primary)
    : Process(env, Actor::Kind::kBroker, "broker " + std::to_string(number)),
      number_(number),
      primary_(std::move(primary)) {}

BrokerProcess::~BrokerProcess() = default;

void BrokerProcess::Start() {
  Live();
  env_.Log([&] { return name() + " starts"; });
  char id[17];
  std::snprintf(id, sizeof id, "%08x%08x", static_cast<unsigned>(number_ + 1), static_cast<unsigned>(life()));
  broker_id_ = id;
  core::BrokerConfig config;
  config.validity = env_.temper.validity;
  config.queue_slot = env_.temper.queue_slot;
  config.store_timeout = env_.temper.store_timeout;
  config.seed = env_.dice.Next();
  core_ = std::make_unique<core::Broker>(config);
  store::LockOptions options;
  options.broker_id = broker_id_;
  options.queue_slot = env_.temper.queue_slot;
  options.counts_listeners = env_.temper.counts_listeners;
  link_ = std::make_unique<StoreLink>(env_, *this, primary_, options, [this](core::Input in) { Step(std::move(in)); });
  front_ = std::make_unique<Front>(env_, *this, broker_id_, [this](core::Input in) { Enqueue(std::move(in)); });
  link_->Start();
}

void BrokerProcess::Kill(Duration heard_within) {
  if (!alive()) return;
  env_.Log([&] { return name() + " dies"; });
  HangUp(heard_within);
  Die();
  env_.dead_brokers.insert(broker_id_);
  mail_.clear();
  todo_.clear();
  mail_waits_ = false;
  timer_at_ = kNever;
  ++timer_;
  front_.reset();
  link_.reset();
  core_.reset();
}

void BrokerProcess::Restart(Duration heard_within, Duration down) {
  Kill(heard_within);
  env_.time.After(down, [this, life = life()] {
    if (life == this->life() && !alive()) Start();
  });
}

void BrokerProcess::Drain(Duration timeout) {
  Post([this, timeout] {
    front_->StartDrain();
    Enqueue(core::Drain{timeout});
  });
}

void BrokerProcess::Force(core::ForceRelease force) {
  Post([this, force = std::move(force)] { Enqueue(force); });
}

// The mailbox: what streams post is taken together, a little later.
void BrokerProcess::Enqueue(core::Input input) {
  mail_.push_back(std::move(input));
  if (std::exchange(mail_waits_, true)) return;
  PostAfter(env_.dice.Between(Duration(0), microseconds(50)), [this] { TakeMail(); });
}

void BrokerProcess::TakeMail() {
  mail_waits_ = false;
  std::deque<core::Input> mail = std::move(mail_);
  mail_.clear();
  const uint64_t before = life();
  for (core::Input& input : mail) {
    if (before == life()) Step(std::move(input));
  }
}

// Inputs that effects cause at once wait until those are all performed.
void BrokerProcess::Step(core::Input input) {
  todo_.push_back(std::move(input));
  if (std::exchange(stepping_, true)) return;
  const uint64_t before = life();
  while (before == life() && !todo_.empty()) {
    core::Input next = std::move(todo_.front());
    todo_.pop_front();
    effects_.clear();
    core_->Step(CoreNow(), std::move(next), effects_);
    Perform();
  }
  stepping_ = false;
  if (before == life()) ArmTimer();
}

void BrokerProcess::Perform() {
  for (core::Effect& effect : effects_) {
    if (auto* command = std::get_if<core::StoreCommand>(&effect)) {
      link_->Submit(std::move(*command));
    } else if (auto* notify = std::get_if<core::Notify>(&effect)) {
      front_->Tell(std::move(*notify));
    } else if (std::holds_alternative<core::DrainComplete>(effect)) {
      // Not from within: who called may be part of it.
      PostAfter(Duration(0), [this] { Restart(milliseconds(20), env_.dice.Between(milliseconds(1), seconds(4))); });
    }
  }
}

void BrokerProcess::ArmTimer() {
  const Instant next = core_->NextDeadline();
  if (next == timer_at_) return;
  timer_at_ = next;
  const uint64_t timer = ++timer_;
  if (next == kNever) return;
  const Duration late = env_.dice.Chance(0.3) ? env_.dice.Between(Duration(0), milliseconds(1)) : Duration(0);
  PostAt(next.time_since_epoch() + late, [this, timer] {
    if (timer == timer_) OnTimer();
  });
}

void BrokerProcess::OnTimer() {
  timer_at_ = kNever;
  ticks_ = ticked_ == env_.now() ? ticks_ + 1 : 0;
  ticked_ = env_.now();
  if (ticks_ > kMostTicks) return env_.Fail(name() + " wants to be woken in the same instant again and again");
  Step(core::Tick{});
}

void BrokerProcess::OnResumed() {
  if (core_ != nullptr) Step(core::Tick{});
}

}  // namespace distlock::sim
