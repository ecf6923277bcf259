// SPDX-License-Identifier: Apache-2.0
//
// A Redis server of a simulation: the model with the production scripts, with its own clock, pauses, restarts and
// replicas.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "redis/redis_model.h"
#include "simulation/endpoint.h"
#include "store/redis/script_caller.h"

namespace distlock::sim {

class StoreProcess : public Endpoint {
 public:
  // Its clock shows wall-clock time; `number` tells servers apart.
  StoreProcess(Env& env, int number);

  RedisModel& model() { return model_; }
  int NewConnection() override { return next_connection_++; }
  // Answers at once.
  void Run(int connection, std::string_view command, Answer answer) override { answer(Execute(connection, command)); }
  void Disconnect(int connection) override {
    model_.Disconnect(connection);
    listeners_.erase(connection);
  }
  void OnMessage(int connection, Hear hear) override { listeners_[connection] = std::move(hear); }
  // The fraction of messages that get lost although PUBLISH counted their receivers.
  void LoseNotices(double part) { lost_notices_ = part; }

  // The process ends and starts again after `down`.
  virtual void Restart(Duration down, Memory memory);
  // The same, as another machine that has the data of `other`.
  void Replace(Duration down, StoreProcess& other);
  // A memory that a restart may leave, by the simulation's persistence.
  Memory AnyMemory();
  // An operator sets appendfsync to everysec, and not in the file from which the next process reads it.
  void AppendEachSecond();
  bool appends_each_second() const { return appends_each_second_; }
  // How long those in its queues may stand in the way of others if they are waiters of before a restart, whom nobody
  // knows any more.
  Duration StaleWaits() const;
  // The same when it takes the place of `newer`: of waiters who are in its own queues alone.
  Duration StaleWaits(const StoreProcess& newer) const;
  void StepClock(Duration by);
  // The wall clock is all that a store goes by.
  void SlewWallClock(int drift_ppm);
  // Its clock runs at that rate, `ahead` of those that do so too.
  void KeepTogether(int drift_ppm, Duration ahead);
  // All writes reach `replica` after about `lag`.
  void ReplicateTo(StoreProcess* replica, Duration lag);
  void StopReplicating() { replicas_.clear(); }

  // Within `after` of AfterCall: the script of the call that has ended; null: another command, or the passing of time.
  const lua::ScriptSource* script() const { return script_; }
  // Within `after`: whether this broker made the call.
  bool IsCaller(std::string_view broker_id) const;
  // Calls `after` after each call, and when keys have expired.
  void AfterCall(std::function<void()> after) { after_call_ = std::move(after); }
  // Makes a Sync, and with it AfterCall's callback, at that time of the store's clock.
  void LookAt(int64_t us) {
    if (us == look_at_us_) return;
    look_at_us_ = us;
    ScheduleExpiry();
  }
  // Sets the model's clock and lets due keys expire.
  void Sync();

 protected:
  store::ReplyPtr Execute(int connection, std::string_view bytes);

 private:
  // The process runs again after a restart.
  virtual void OnStarted() {}
  // Before a command that may change something: what a restart may go back to.
  void Copy();
  void GoBack(Memory memory);
  void ReadPersistence();
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
  // Its data before some command, and when that was; by time. The first one is old enough, or there is none such.
  struct EarlierData {
    Instant at;
    RedisModel data;
  };
  std::deque<EarlierData> copies_;
  int64_t look_at_us_ = 0;            // 0: none
  bool appends_each_second_ = false;  // at the will of an operator
  Instant expiry_at_ = kNever;
  uint64_t expiry_timer_ = 0;
  const lua::ScriptSource* script_ = nullptr;
  Argv argv_;  // with script_
};

}  // namespace distlock::sim
