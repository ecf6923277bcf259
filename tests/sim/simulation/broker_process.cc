// SPDX-License-Identifier: Apache-2.0
#include "simulation/broker_process.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "simulation/sentinel_process.h"
#include "store/cluster/cluster_store.h"
#include "store/redlock/redlock_store.h"
#include "store/sentinel/sentinel_store.h"
#include "store/single/single_store.h"

namespace distlock::sim {
namespace {

// More wake-ups at the same virtual time mean that the core does not advance its deadline.
constexpr int kMostTicks = 200;

}  // namespace

BrokerProcess::BrokerProcess(Env& env, int number, const Directory& directory,
                             std::vector<store::ServerAddress> servers)
    : Process(env, Actor::Kind::kBroker, "broker " + std::to_string(number)),
      number_(number),
      directory_(directory),
      servers_(std::move(servers)) {}

BrokerProcess::~BrokerProcess() = default;

void BrokerProcess::Start() {
  Live();
  started_at_ = env_.now();
  env_.Log([&] { return name() + " starts"; });
  char id[17];
  std::snprintf(id, sizeof id, "%08x%08x", static_cast<unsigned>(number_ + 1), static_cast<unsigned>(life()));
  broker_id_ = id;
  core::BrokerConfig config;
  config.validity = env_.temper.validity;
  config.queue_slot = env_.temper.queue_slot;
  config.store_timeout = env_.temper.store_timeout;
  config.seed = env_.dice.Next();
  if (env_.temper.topology == Topology::kCluster) config.store = store::ClusterStore::kTraits;
  if (env_.temper.topology == Topology::kQuorum) config.store = store::RedlockStore::kTraits;
  core_ = std::make_unique<core::Broker>(config);
  front_ = std::make_unique<Front>(env_, *this, broker_id_, [this](core::Input in) { Enqueue(std::move(in)); });
  OpenStore();
}

void BrokerProcess::OpenStore() {
  store::StoreOptions options;
  options.seed = env_.dice.Next();
  options.locks.broker_id = broker_id_;
  options.locks.queue_slot = env_.temper.queue_slot;
  options.locks.counts_listeners = env_.temper.counts_listeners;
  options.on_problem = [this](const absl::Status& problem) {
    env_.Log([&] { return name() + " says: " + std::string(problem.message()); });
  };
  dialer_ = std::make_shared<SimDialer>(env_, *this, directory_);
  store_ = MakeStore(std::move(options));
  submitted_ = flush_waits_ = false;
  store_->Start(this);
}

std::unique_ptr<store::Store> BrokerProcess::MakeStore(store::StoreOptions options) {
  const store::Network network{.dialer = dialer_, .timers = std::make_shared<SimTimers>(env_, *this)};
  options.locks.hold_off = {
      .kind = env_.temper.name_moves ? store::HoldOffOptions::Kind::kIfReplicated
              : env_.temper.hold_off ? store::HoldOffOptions::Kind::kAuto
                                     : store::HoldOffOptions::Kind::kOff,
      .longest_ttl = env_.settings.longest_ttl,
      .can_fail_over = env_.temper.topology == Topology::kSentinel || env_.temper.failing_nodes,
      .has_all_locks = env_.temper.topology == Topology::kSentinel || env_.temper.topology == Topology::kSingle};
  if (env_.settings.fixed_hold_off > Duration(0)) {
    options.locks.hold_off.kind = store::HoldOffOptions::Kind::kFixed;
    options.locks.hold_off.fixed = env_.settings.fixed_hold_off;
  }
  const bool confirms = env_.settings.guard == FailoverGuard::kConfirmed;
  options.wait_replicas = options.locks.hold_off.can_fail_over && confirms ? 1 : 0;
  switch (env_.temper.topology) {
    case Topology::kSingle:
      options.url.address.host = kStoreHost;
      return std::make_unique<store::SingleStore>(network, options);
    case Topology::kSentinel:
      options.url.sentinels = servers_;
      options.url.primary_name = SentinelProcess::kPrimaryName;
      return std::make_unique<store::SentinelStore>(network, network, options);
    case Topology::kCluster:
      options.url.topology = store::StoreUrl::Topology::kCluster;
      options.url.seeds = servers_;
      return std::make_unique<store::ClusterStore>(network, options);
    case Topology::kQuorum:
      break;
  }
  options.url.topology = store::StoreUrl::Topology::kQuorum;
  options.url.servers = servers_;
  return std::make_unique<store::RedlockStore>(network, options);
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
  store_.reset();
  dialer_.reset();
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

void BrokerProcess::Look(Question ask) { Enqueue(Mail{{}, std::move(ask)}); }

void BrokerProcess::HearOfDeath(core::SessionId session, Duration later) {
  PostAfter(later, [this, session] { Enqueue(core::HolderDied{session, ""}); });
}

// The mailbox: inputs that streams post are taken together, a little later.
void BrokerProcess::Enqueue(Mail mail) {
  mail_.push_back(std::move(mail));
  if (std::exchange(mail_waits_, true)) return;
  PostAfter(env_.dice.Between(Duration(0), microseconds(50)), [this] { TakeMail(); });
}

void BrokerProcess::TakeMail() {
  mail_waits_ = false;
  std::deque<Mail> mail = std::move(mail_);
  mail_.clear();
  const uint64_t before = life();
  for (Mail& one : mail) {
    if (before != life()) return;
    if (!one.question) {
      Step(std::move(one.input));
    } else {
      one.question(*store_);
      FlushStore();
    }
  }
}

// Inputs that an effect causes at once wait until all effects are performed.
void BrokerProcess::Step(core::Input input) {
  todo_.push_back(std::move(input));
  if (std::exchange(stepping_, true)) return;
  const uint64_t before = life();
  while (before == life() && !todo_.empty()) {
    core::Input next = std::move(todo_.front());
    todo_.pop_front();
    effects_.clear();
    core_->Step(CoreNow(), std::move(next), effects_);
    core_->Check();
    Perform();
  }
  stepping_ = false;
  if (before != life()) return;
  FlushStore();
  ArmTimer();
}

void BrokerProcess::OnStoreInput(core::Input&& input) {
  if (std::holds_alternative<core::StoreUp>(input)) {
    env_.Log([&] { return name() + " has a store"; });
  } else if (const auto* down = std::get_if<core::StoreDown>(&input)) {
    env_.Log([&] { return name() + " has no store: " + down->cause; });
  }
  Step(std::move(input));
}

// Submitted commands leave at the end of the turn, which may have several steps.
void BrokerProcess::FlushStore() {
  if (!submitted_) return;
  if (env_.temper.gather == Duration(0)) {
    submitted_ = false;
    return store_->Flush();
  }
  if (std::exchange(flush_waits_, true)) return;
  PostAfter(env_.dice.Between(Duration(0), env_.temper.gather), [this] {
    flush_waits_ = submitted_ = false;
    store_->Flush();
  });
}

void BrokerProcess::Perform() {
  for (core::Effect& effect : effects_) {
    if (auto* command = std::get_if<core::StoreCommand>(&effect)) {
      submitted_ = true;
      store_->Submit(std::move(*command));
    } else if (auto* notify = std::get_if<core::Notify>(&effect)) {
      front_->Tell(std::move(*notify));
    } else if (std::holds_alternative<core::DrainComplete>(effect)) {
      // Not here: the caller may be an object of this life.
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
