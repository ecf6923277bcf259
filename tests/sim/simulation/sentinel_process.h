// SPDX-License-Identifier: Apache-2.0
//
// A sentinel of a simulation, as brokers see it: answers their questions by what it was told last, and publishes
// +switch-master when it is told of another primary. Sentinels' votes are the ReplicaSet's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulation/endpoint.h"

namespace distlock::sim {

class SentinelProcess : public Endpoint {
 public:
  static constexpr int kPort = 26379;
  static constexpr const char* kPrimaryName = "mymaster";

  SentinelProcess(Env& env, int number, std::string host, int replicas);

  const std::string& host() const { return host_; }
  // The other sentinels.
  void Meet(std::vector<std::string> peers) { peers_ = std::move(peers); }
  // An epoch that is not higher than the one it knows is ignored.
  void Tell(const std::string& primary_host, int primary_port, uint64_t epoch);
  // The process ends, and starts again with what it knew.
  void Restart(Duration down);

  int NewConnection() override { return next_connection_++; }
  void Run(int connection, std::string_view command, Answer answer) override;
  void OnMessage(int connection, Hear hear) override { hear_[connection] = std::move(hear); }
  void Disconnect(int connection) override;

 private:
  store::ReplyPtr Reply(int connection, std::string_view bytes);

  const std::string host_;
  const int replicas_;
  std::vector<std::string> peers_;
  std::string primary_host_;
  int primary_port_ = 0;
  uint64_t epoch_ = 0;
  int next_connection_ = 1;
  std::map<int, Hear> hear_;
  std::map<int, std::string> subscribed_;  // connection, channel
};

}  // namespace distlock::sim
