// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <algorithm>

namespace distlock::core {
namespace {

enum FaultKind { kBreakLink, kBreakChannel, kPauseStore, kPauseBroker, kCrash, kDrain, kFlushAll, kDelete, kFaultKinds };

}  // namespace

World::World(uint64_t seed, bool log) : env_(seed, log) {
  DrawTemper();
  MakeStore();
  for (int i = 0; i < env_.temper.nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>(
        env_, i, [this, i](const Notify& notify) { callers_->Told(i, notify); }, [this, i] {
          callers_->NodeDied(i);
          env_.judge->NodeDied(i);
          env_.time.After(env_.dice.Between(milliseconds(1), seconds(4)),
                          [this, i] { nodes_[static_cast<size_t>(i)]->Start(); });
        }));
  }
  callers_ = std::make_unique<Callers>(env_, nodes_);
}

void World::DrawTemper() {
  Dice& dice = env_.dice;
  Temper& temper = env_.temper;
  temper.calm = env_.seed % 2 == 0;
  temper.nodes = 1 + dice.Roll(3);
  temper.locks = 1 + dice.Roll(3);
  temper.clients = 1 + dice.Roll(6);
  temper.drift_ppm = dice.Roll(1001) - 500;
  temper.trusted = dice.Chance(0.7);
  temper.slow = dice.Chance(0.5) ? 0 : 0.1;
  temper.slowest = dice.Pick<Duration>({milliseconds(100), milliseconds(700), seconds(3)});
  temper.lost_notices = dice.Chance(0.5) ? 0 : 0.3;
  temper.validity = dice.Pick<Duration>({seconds(3), seconds(1)});
  temper.queue_slot = dice.Pick<Duration>({seconds(30), seconds(4)});
  for (const Duration ttl : {seconds(1), seconds(2), seconds(5), seconds(15)}) {
    if (dice.Chance(0.5)) temper.ttls.push_back(ttl);
  }
  if (temper.ttls.empty()) temper.ttls.push_back(seconds(2));
  temper.gentle = temper.calm || dice.Chance(0.1);
  if (temper.calm) return;
  temper.fault_every = dice.Pick<Duration>({milliseconds(400), seconds(2), seconds(6)});
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    if (dice.Chance(0.4)) temper.faults.push_back(kind);
  }
  if (temper.faults.empty()) temper.faults.push_back(kBreakLink);
  if (temper.gentle) {
    temper.faults = {kFlushAll};
    temper.slow = temper.lost_notices = 0;
  }
}

void World::MakeStore() {
  ModelStore::Hooks hooks;
  hooks.publish = [this](uint64_t number, const GrantNotice& notice) {
    bool heard = false;
    for (const auto& node : nodes_) heard |= node->Hear(number, notice);
    return heard;
  };
  hooks.granted = [this](const LockName& name, const OwnerId& owner, uint64_t token) {
    env_.judge->Granted(name, owner, token);
  };
  hooks.freed = [this](const LockName& name, const OwnerId& owner) {
    env_.Log([&] { return "    store: " + name.escaped() + " is free of " + Short(owner); });
    env_.judge->Freed(name, owner);
  };
  hooks.expired = [this](const LockName& name, const OwnerId& owner) {
    env_.judge->Expired(name, owner, env_.now() - env_.last_trouble);
  };
  hooks.queued = [this](const LockName& name, const OwnerId& owner) { env_.judge->Queued(name, owner); };
  hooks.withdrawn = [this](const OwnerId& owner) { env_.judge->Withdrawn(owner); };
  env_.store = std::make_unique<ModelStore>(std::move(hooks), env_.temper.trusted, env_.temper.queue_slot);
  env_.judge = std::make_unique<Judge>(
      env_.temper.calm, env_.temper.gentle, env_.temper.validity, [this] { return env_.now(); },
      [this](const LockName& name) { return env_.store->HolderOf(name); },
      [this](const std::string& what) { env_.Fail(what); });
}

// A key that expires is noticed at that very instant, whether or not a command comes.
void World::WatchExpiry() {
  env_.store->Advance(env_.StoreNow());
  Instant next = env_.now() + milliseconds(20);
  if (const auto expiry = env_.store->NextExpiry()) next = std::min(next, env_.WhenStoreShows(*expiry));
  env_.time.At(std::max(next, env_.now() + microseconds(1)), [this] { WatchExpiry(); });
}

void World::CauseFaults() {
  if (!env_.trouble || env_.temper.faults.empty()) return;
  env_.time.After(env_.dice.Between({}, 2 * env_.temper.fault_every), [this] {
    if (env_.trouble) Fault(env_.dice.Pick(env_.temper.faults));
    CauseFaults();
  });
}

void World::Fault(int kind) {
  env_.Trouble(env_.now());
  Dice& dice = env_.dice;
  Node& node = *nodes_[static_cast<size_t>(dice.Roll(env_.temper.nodes))];
  switch (kind) {
    case kBreakLink: return node.BreakLink("reset");
    case kBreakChannel: return node.BreakChannel();
    case kPauseStore:
      env_.Log([] { return std::string("the store pauses"); });
      env_.store_paused_until =
          std::max(env_.store_paused_until, env_.now() + dice.Between({}, dice.Chance(0.7) ? seconds(2) : seconds(20)));
      return env_.Trouble(env_.store_paused_until);
    case kPauseBroker:
      if (node.alive()) node.Pause(dice.Between({}, dice.Chance(0.7) ? seconds(2) : seconds(20)));
      return;
    case kCrash:
      if (node.alive()) node.Crash();
      return;
    case kDrain:
      if (node.alive()) node.Post(Drain{dice.Between({}, seconds(4))});
      return;
    case kFlushAll: return EmptyStore();
    case kDelete: {
      const LockName name =
          LockName::Encode("default", std::string(1, static_cast<char>('a' + dice.Roll(env_.temper.locks))));
      const auto part = static_cast<ModelStore::Part>(dice.Roll(5));
      env_.Log([&] { return "somebody deletes part " + std::to_string(static_cast<int>(part)) + " of " + name.escaped(); });
      if (const OwnerId* holder = env_.store->HolderOf(name); holder != nullptr && part == ModelStore::Part::kHolder) {
        env_.judge->Excuse(*holder);
      }
      return env_.store->Delete(name, part);
    }
    default: return;
  }
}

void World::EmptyStore() {
  env_.Log([] { return std::string("FLUSHALL"); });
  env_.store->Advance(env_.StoreNow());
  for (const auto& [name, owner] : env_.store->Holders()) env_.judge->Excuse(owner);
  env_.store->FlushAll();
  env_.judge->StoreEmptied();
}

void World::RunUntil(Duration longest, bool until_idle) {
  env_.time.Run(env_.now() + longest,
                [&] { return !env_.failure.empty() || (until_idle && callers_->idle()); });
}

std::string World::Run() {
  WatchExpiry();
  for (auto& node : nodes_) node->Start();
  callers_->Start();
  env_.trouble = !env_.temper.calm;
  CauseFaults();
  RunUntil(env_.dice.Between(seconds(5), seconds(40)), false);
  env_.Log([] { return std::string("all heals"); });
  env_.trouble = false;
  RunUntil(seconds(20), false);  // what trouble began still ends
  callers_->Settle();
  RunUntil(seconds(400), true);
  if (env_.failure.empty() && !callers_->idle()) env_.Fail("somebody waits for ever");
  if (env_.failure.empty()) {
    RunUntil(seconds(15), false);
    env_.judge->ExpectAllAnswered();
    callers_->CloseAll();
    RunUntil(seconds(120), false);
    ExpectNothingLeft();
  }
  return env_.failure;
}

void World::ExpectNothingLeft() {
  for (const auto& node : nodes_) {
    if (!node->alive()) continue;
    const BrokerStats stats = node->Stats();
    const std::pair<const char*, size_t> counts[] = {
        {"sessions", stats.sessions}, {"leases", stats.leases}, {"waiters", stats.waiters}, {"discards", stats.discards},
        {"queues", stats.queues},     {"ops", stats.ops},       {"timers", stats.timers}};
    for (const auto& [what, count] : counts) {
      // A drain that has not come to its end keeps its own timer.
      if (count != 0) env_.Fail(std::to_string(count) + " " + what + " left in a broker");
    }
  }
  env_.store->Advance(env_.StoreNow());
  if (env_.store->Keys() != 0) env_.Fail(std::to_string(env_.store->Keys()) + " keys left in the store");
}

}  // namespace distlock::core
