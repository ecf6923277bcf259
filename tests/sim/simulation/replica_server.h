// SPDX-License-Identifier: Apache-2.0
//
// A Redis server that replicates: a primary streams its writes to the servers that follow it, over wires of the
// simulation, counts what they have confirmed (WAIT, min-replicas-to-write), and goes on until somebody tells it
// otherwise. A follower copies all data first. Who follows whom is the ReplicaSet's to say.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simulation/store_process.h"
#include "simulation/wire.h"

namespace distlock::sim {

class ReplicaServer : public StoreProcess {
 public:
  ReplicaServer(Env& env, int number, std::string host);

  const std::string& host() const { return host_; }
  static constexpr int kPort = 6379;
  // Fewer followers than `count` that were heard within `max_lag`, and it refuses writes.
  void DemandReplicas(int count, Duration max_lag);

  // Becomes a follower of `primary`, as REPLICAOF has it. Its clients' connections end when `hangs_up`.
  void Follow(ReplicaServer& primary, bool hangs_up);
  // Becomes a primary with the data that it has.
  void Promote();
  bool leads() { return !model().is_replica(); }
  // True: the follower has copied its primary's data at least once.
  bool has_copy() const { return has_copy_; }
  // From now until a moment early in a second of its clock: who is heard in a second has no lag until it is over.
  // Sometimes 0.
  Duration UntilLagCountsLate();
  // How much it has written or followed; grows with each write.
  uint64_t offset() const { return offset_; }

  void Run(int connection, std::string_view command, Answer answer) final;
  void Disconnect(int connection) override;
  void Restart(Duration down, Memory memory) override;

 protected:
  // Answers a command that no WAIT is before.
  virtual void RunNow(int connection, std::string_view command, Answer answer);
  void OnStarted() override;

 private:
  struct Follower {
    ReplicaServer* server;
    std::weak_ptr<Wire> wire;
    uint64_t attempt;
    uint64_t confirmed = 0;
    int64_t heard = 0;  // second of this server's clock
  };
  // A connection whose WAIT is not answered yet; the server reads nothing else from it meanwhile.
  struct Waiting {
    uint64_t offset;
    int replicas;
    uint64_t serial;
    Answer answer;
    std::deque<std::pair<std::string, Answer>> behind;
  };

  void Connect();
  void Attach(ReplicaServer* follower, const WirePtr& wire, uint64_t attempt);
  void OnConfirmed(const ReplicaServer* follower, uint64_t offset);
  void OnCopied(const RedisModel& data, uint64_t offset);
  void OnStreamed(const Effects& effects, uint64_t offset);
  void Confirm();
  void ConfirmEachSecond();
  // Whole seconds of its clock, in which Redis counts how long a follower was silent.
  int64_t Second() { return model().now_us() / 1'000'000; }
  // Counts the followers; at least every second.
  void ShowFollowers();
  void Count();
  void CountEachSecond();

  void Wait(int connection, const Argv& argv, Answer answer);
  int Confirmed(uint64_t offset) const;
  void AnswerWaits();
  void EndWait(int connection, store::ReplyPtr reply);
  void UnblockAll();

  const std::string host_;
  uint64_t offset_ = 0;
  int min_replicas_ = 0;
  Duration max_lag_{};

  // As a primary.
  std::vector<Follower> followers_;
  std::map<int, uint64_t> wrote_;  // by connection: the offset after its last write
  std::map<int, Waiting> waiting_;
  uint64_t waits_ = 0;

  // As a follower.
  ReplicaServer* primary_ = nullptr;
  WirePtr up_;
  uint64_t attempt_ = 0;  // counts connections
  bool has_copy_ = false;
};

}  // namespace distlock::sim
