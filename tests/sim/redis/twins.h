// SPDX-License-Identifier: Apache-2.0
//
// The model and a real server, made to do the same and compared: replies, messages, and all that is stored.
// One thread.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "redis/real_server.h"
#include "redis/redis_model.h"

namespace distlock::sim {

class Twins {
 public:
  static constexpr int kListeners = 3;
  static constexpr int64_t kStart = 1'700'000'000'000'000;

  explicit Twins(const std::string& binary);

  // Both empty, with all scripts, at kStart, nobody subscribed.
  void Reset();

  // What the twins differed in first since Reset; "" when in nothing.
  const std::string& difference() const { return difference_; }
  RedisModel& model() { return *model_; }

  // One command on each.
  void Do(const Argv& argv);
  // Each listener has a connection of its own.
  void Listen(int listener, std::string_view channel);
  // Nothing when it does not listen.
  void Unlisten(int listener, std::string_view channel);
  void Hang(int listener);

  // What a client asks before it uses a server: the choice is taken modulo what there is.
  void Prepare(uint8_t choice);

  void MoveClock(int64_t by_us);
  void LimitMemory(bool on);
  void SetReplica(bool on);
  void WantReplicas(bool on);

  // All keys with type, TTL and value.
  void CompareData();
  // The keys that whole walks of both by SCAN find, and that the pattern names.
  void CompareScan(std::string_view pattern);
  // Nobody has been told more than was compared.
  void CompareSilence();

  // How often something was seen since the start: "reply 1" by the code of a script's reply, "-OOM" by the first word
  // of an error, "message".
  const absl::btree_map<std::string, int64_t>& seen() const { return seen_; }
  int64_t commands() const { return commands_; }

 private:
  struct Message {
    int listener;
    std::string text;
  };

  void Administer(const Argv& argv);
  void Compare(const Argv& argv, const redisReply* real, const redisReply& modelled);
  void CompareInfo(const Argv& argv);
  void CompareMessages(const Argv& argv);
  std::string ScanAll(std::string_view pattern, const std::function<store::ReplyPtr(const Argv&)>& run);
  void CompareSorted(const std::vector<Argv>& commands);
  bool Same(const std::string& real, const std::string& modelled) const;
  void Differ(std::string_view what, std::string_view real, std::string_view modelled);
  void Count(const Argv& argv, const redisReply& reply);

  const bool valkey_;  // which says some errors in other words
  RealServer real_;
  Connection main_;
  std::array<std::optional<Connection>, kListeners> listeners_;
  std::unique_ptr<RedisModel> model_;
  std::vector<Message> messages_;  // of the model, not compared yet
  std::string difference_;
  absl::btree_map<std::string, int64_t> seen_;
  int64_t commands_ = 0;
};

}  // namespace distlock::sim
