// SPDX-License-Identifier: Apache-2.0
#include "world/store_process.h"

namespace distlock::sim {
namespace {

constexpr Duration kWallClock = std::chrono::hours(400'000);

}  // namespace

StoreProcess::StoreProcess(Env& env, int number)
    : Endpoint(env, Actor::Kind::kStore, "store " + std::to_string(number)),
      model_(0, static_cast<uint64_t>(number)),
      wall_(kDawn, kWallClock + env.dice.Between(Duration(0), milliseconds(3)),
            env.dice.Roll(2 * env.temper.drift_ppm + 1) - env.temper.drift_ppm) {
  Live();
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

void StoreProcess::Restart(Duration down, bool keeps_data) {
  env_.Log([&] { return name() + (keeps_data ? " restarts" : " restarts empty"); });
  HangUp(milliseconds(20));
  Die();
  listeners_.clear();
  model_.Restart();
  if (!keeps_data) model_.Execute(0, {"FLUSHALL"});
  env_.time.After(down, [this] {
    Live();
    Sync();
    OnStarted();
  });
}

void StoreProcess::StepClock(Duration by) {
  wall_.Step(by);
  expiry_at_ = kNever;
  Post([this] { Sync(); });
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
