// SPDX-License-Identifier: Apache-2.0
//
// A Redis server of a world: the model with the production scripts, on its own clock, with its pauses, restarts and
// replicas. Whoever sends it a command gets the reply through a callback, in the same instant.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "redis/redis_model.h"
#include "store/redis/script_caller.h"
#include "world/process.h"

namespace distlock::sim {

class StoreProcess : public Process {
 public:
  // Shows wall-clock time; `number` tells servers apart.
  StoreProcess(Env& env, int number);

  RedisModel& model() { return model_; }
  int NewConnection() { return next_connection_++; }
  // Runs the command `bytes` for a connection now.
  store::ReplyPtr Run(int connection, std::string_view bytes);
  void Disconnect(int connection) {
    model_.Disconnect(connection);
    listeners_.erase(connection);
  }

  // Messages for a connection that subscribes.
  using Hear = std::function<void(std::string_view channel, std::string_view payload)>;
  void OnMessage(int connection, Hear hear) { listeners_[connection] = std::move(hear); }
  // Part of the messages that get lost although PUBLISH counted them.
  void LoseNotices(double part) { lost_notices_ = part; }

  // The process ends and starts again after `down`, with its data or without.
  void Restart(Duration down, bool keeps_data);
  void StepClock(Duration by);
  // Everything written here reaches `replica` after about `lag`.
  void ReplicateTo(StoreProcess* replica, Duration lag);
  void StopReplicating() { replicas_.clear(); }

  // Called when a call, or expiry, is over.
  // Of the call that AfterCall is told of; null: it was none of a script, or time that passed.
  const lua::ScriptSource* script() const { return script_; }
  // Of that call: whether this broker makes it.
  bool IsCaller(std::string_view broker_id) const;
  void AfterCall(std::function<void()> after) { after_call_ = std::move(after); }
  // A Sync, and with it a look, at that time of its clock.
  void LookAt(int64_t us) {
    if (us == look_at_us_) return;
    look_at_us_ = us;
    ScheduleExpiry();
  }
  // Keeps the model's clock and lets keys expire in time.
  void Sync();

 private:
  void ScheduleExpiry();
  void OnResumed() override { Sync(); }

  RedisModel model_;
  SkewedClock wall_;
  int next_connection_ = 1;
  std::map<int, Hear> listeners_;
  std::function<void()> after_call_;
  double lost_notices_ = 0;
  struct Replica {
    StoreProcess* store;
    Duration lag;
    Instant last;
  };
  std::deque<Replica> replicas_;
  int64_t look_at_us_ = 0;  // 0: none
  Instant expiry_at_ = kNever;
  uint64_t expiry_timer_ = 0;
  const lua::ScriptSource* script_ = nullptr;
  Argv argv_;  // with script_
};

}  // namespace distlock::sim
