// SPDX-License-Identifier: Apache-2.0
#include "simulation/store_process.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace distlock::sim {
namespace {

constexpr Duration kWallClock = std::chrono::hours(400'000);
constexpr Duration kCopyEvery = milliseconds(100);
// How much the clocks of two machines differ that were set by the same source.
constexpr Duration kClocksDiffer = milliseconds(2);

// Waiters in the queues of `old` that are not in those of `newer`, if that is given.
int Waiters(const RedisModel& old, const RedisModel* newer) {
  int waiters = 0;
  for (const KeyFacts& facts : old.Keys()) {
    if (!facts.key.ends_with("}:q")) continue;
    std::set<std::string_view> known;
    if (newer != nullptr) {
      for (const auto& [owner, place] : newer->Zset(facts.key)) known.insert(owner);
    }
    for (const auto& [owner, place] : old.Zset(facts.key)) waiters += known.contains(owner) ? 0 : 1;
  }
  return waiters;
}

}  // namespace

StoreProcess::StoreProcess(Env& env, int number)
    : Endpoint(env, Actor::Kind::kStore, "store " + std::to_string(number)),
      model_(0, static_cast<uint64_t>(number)),
      wall_(kDawn, kWallClock + env.dice.Between(Duration(0), milliseconds(3)),
            env.dice.Roll(2 * env.temper.drift_ppm + 1) - env.temper.drift_ppm) {
  Live();
  ReadPersistence();
  Sync();
  model_.OnMessage([this](int connection, std::string_view channel, std::string_view payload) {
    const auto found = listeners_.find(connection);
    if (found == listeners_.end()) return;
    if (env_.trouble && env_.dice.Chance(lost_notices_)) return;
    found->second(channel, payload);
  });
}

store::ReplyPtr StoreProcess::Execute(int connection, std::string_view bytes) {
  Sync();
  Copy();
  const Argv argv = ParseCommand(bytes);
  store::ReplyPtr reply = model_.Execute(connection, argv);
  for (const lua::ScriptSource* script : store::AllScripts()) {
    if (argv.size() > 1 && argv[0] == "EVALSHA" && argv[1] == script->sha1) script_ = script;
  }
  argv_ = argv;
  if (after_call_) after_call_();
  script_ = nullptr;
  ScheduleExpiry();
  return reply;
}

bool StoreProcess::IsCaller(std::string_view broker_id) const {
  // The position of the caller's id in ARGV differs by verb. Only force also names another broker, the holder's, as the
  // third.
  const size_t keys = script_ == nullptr ? argv_.size() : size_t{3 + 4};
  for (size_t i = keys; i < argv_.size(); ++i) {
    if (argv_[i] == broker_id && !(script_ == &lua::kForce && i == keys + 2)) return true;
  }
  return false;
}

void StoreProcess::Sync() {
  model_.SetClock(std::chrono::duration_cast<microseconds>(wall_.Shows(env_.now())).count());
  if (!model_.is_replica()) model_.ExpireDue();
  if (after_call_) after_call_();
  ScheduleExpiry();
}

// An expired key is noticed at the time of its expiry, even without a command.
void StoreProcess::ScheduleExpiry() {
  if (model_.is_replica()) return;
  auto next = model_.NextExpiry();
  if (look_at_us_ > model_.now_us()) next = std::min(next.value_or(look_at_us_), look_at_us_);
  const Instant at = next ? wall_.When(microseconds(*next)) : kNever;
  if (at == expiry_at_) return;
  expiry_at_ = at;
  env_.time.At(at, [this, timer = ++expiry_timer_] {
    if (timer != expiry_timer_) return;
    expiry_at_ = kNever;
    Post([this] { Sync(); });
  });
}

void StoreProcess::Restart(Duration down, Memory memory) {
  env_.Log([&] {
    constexpr const char* kHow[] = {" restarts", " restarts without its last second", " restarts with an old copy",
                                    " restarts empty"};
    return name() + kHow[static_cast<size_t>(memory)];
  });
  HangUp(milliseconds(20));
  Die();
  listeners_.clear();
  if (memory != Memory::kAll) {
    env_.forgot_until = env_.now() + *std::ranges::max_element(env_.temper.ttls) + seconds(1);
  }
  GoBack(memory);
  model_.Restart();
  ReadPersistence();
  // Where brokers do not hold off, a token may repeat if the clock of a server that forgot it is behind.
  if (env_.temper.hold_off && (memory == Memory::kOldCopy || memory == Memory::kNothing)) {
    wall_.Step(env_.dice.Between(-kClocksDiffer, kClocksDiffer));
  }
  env_.time.After(down, [this] {
    Live();
    Sync();
    OnStarted();
  });
}

// From its file, when it starts.
void StoreProcess::ReadPersistence() {
  const Persistence persistence = env_.temper.persistence;
  const bool unsynced = persistence == Persistence::kUnlessItRewrites;
  const bool always = unsynced || persistence == Persistence::kAlways;
  model_.SetPersistence(persistence != Persistence::kNone, always ? "always" : "everysec", unsynced);
  appends_each_second_ = false;
}

void StoreProcess::AppendEachSecond() {
  env_.Log([&] { return name() + " has appendfsync everysec, until it restarts"; });
  model_.SetPersistence(true, "everysec");
  appends_each_second_ = true;
}

void StoreProcess::Replace(Duration down, StoreProcess& other) {
  Restart(down, Memory::kAll);
  env_.Log([&] { return name() + " is another machine, with the data of " + other.name(); });
  copies_.clear();
  model_.CopyDataFrom(other.model_);
  wall_.Step(env_.dice.Between(-kClocksDiffer, kClocksDiffer));
}

Memory StoreProcess::AnyMemory() {
  if (env_.now() < env_.remembers_until) return Memory::kAll;
  const bool always = env_.temper.persistence == Persistence::kAlways;
  // Nothing shows a broker that has restarted that a server which is empty has had replicas.
  if (env_.temper.name_moves) return always || env_.dice.Chance(0.5) ? Memory::kAll : Memory::kNotItsLastSecond;
  if (always) {
    if (env_.temper.disks_last) return Memory::kAll;
    return env_.dice.Pick<Memory>({Memory::kAll, Memory::kOldCopy, Memory::kNothing});
  }
  return env_.dice.Pick<Memory>({Memory::kAll, Memory::kNotItsLastSecond, Memory::kOldCopy, Memory::kNothing});
}

void StoreProcess::Copy() {
  if (env_.temper.calm || (!copies_.empty() && env_.now() - copies_.back().at < kCopyEvery)) return;
  copies_.push_back({env_.now(), RedisModel()});
  copies_.back().data.CopyDataFrom(model_);
  while (copies_.size() > 1 && copies_[1].at <= env_.now() - kOldCopy) copies_.pop_front();
}

void StoreProcess::GoBack(Memory memory) {
  if (memory == Memory::kAll) return;
  const auto old = [&](const EarlierData& copy) { return copy.at <= env_.now() - kOldCopy; };
  const auto last_second =
      std::ranges::find_if(copies_, [&](const EarlierData& copy) { return copy.at >= env_.now() - seconds(1); });
  if (memory == Memory::kNotItsLastSecond) {
    const auto many = static_cast<int>(copies_.end() - last_second);
    if (many == 0) return;  // it wrote nothing then
    copies_.erase(last_second + 1 + env_.dice.Roll(many), copies_.end());
  } else if (memory == Memory::kOldCopy && !copies_.empty() && old(copies_.front())) {
    copies_.erase(std::ranges::find_if_not(copies_, old), copies_.end());
  } else {
    copies_.clear();
  }
  // Its replicas follow a primary that is empty.
  if (copies_.empty() && !model_.is_replica()) {
    model_.RefuseWrites("");  // as a primary without replicas does
    return void(model_.Execute(0, {"FLUSHALL"}));
  }
  if (copies_.empty()) return model_.CopyDataFrom(RedisModel());
  model_.CopyDataFrom(copies_.back().data);
}

Duration StoreProcess::StaleWaits() const {
  return Waiters(model_, nullptr) * *std::ranges::max_element(env_.temper.ttls);
}

Duration StoreProcess::StaleWaits(const StoreProcess& newer) const {
  return Waiters(model_, &newer.model_) * *std::ranges::max_element(env_.temper.ttls);
}

void StoreProcess::StepClock(Duration by) {
  wall_.Step(by);
  expiry_at_ = kNever;
  Post([this] { Sync(); });
}

void StoreProcess::SlewWallClock(int drift_ppm) {
  wall_.Slew(env_.now(), drift_ppm);
  StepClock(Duration(0));
}

void StoreProcess::KeepTogether(int drift_ppm, Duration ahead) {
  wall_ = SkewedClock(kDawn, kWallClock + ahead, drift_ppm);
  StepClock(Duration(0));
}

void StoreProcess::ReplicateTo(StoreProcess* replica, Duration lag) {
  replica->model_.CopyDataFrom(model_);
  replica->model_.BecomeReplica();
  replicas_.push_back({replica, lag, env_.now()});
  model_.OnEffects([this](const Effects& effects) {
    for (Replica& to : replicas_) {
      to.last = std::max(to.last, env_.now() + env_.dice.Between(Duration(0), to.lag));
      env_.time.At(to.last, [this, store = to.store, effects] {
        for (const Replica& still : replicas_) {
          if (still.store == store) store->model_.Apply(effects);
        }
      });
    }
  });
}

}  // namespace distlock::sim
