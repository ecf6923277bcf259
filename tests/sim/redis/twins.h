// SPDX-License-Identifier: Apache-2.0
//
// The model and a real server: runs the same commands on both and compares replies, messages, and all stored data. One
// thread.
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

  // Makes both empty, with all scripts, at the time kStart, without subscribers.
  void Reset();

  // The first difference since Reset; "": none.
  const std::string& difference() const { return difference_; }
  RedisModel& model() { return *model_; }

  // Runs one command on both.
  void Do(const Argv& argv);
  // Each listener has a connection of its own.
  void Listen(int listener, std::string_view channel);
  // Does nothing when it does not listen.
  void Unlisten(int listener, std::string_view channel);
  void Hang(int listener);

  // Asks a question that a client asks before it uses a server; `choice` is taken modulo the number of questions.
  void Prepare(uint8_t choice);

  void MoveClock(int64_t by_us);
  void LimitMemory(bool on);
  void SetReplica(bool on);
  void WantReplicas(bool on);

  // Compares all keys with type, TTL and value.
  void CompareData();
  // Compares the keys that complete scans of both find, and the keys that match the pattern.
  void CompareScan(std::string_view pattern);
  // Checks that no listener has a message that was not compared.
  void CompareSilence();

  // How often each kind of answer was seen since the start: "reply 1" by the code of a script's reply, "-OOM" by the
  // first word of an error, "message".
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

  const bool valkey_;  // Valkey has other texts for some errors
  RealServer real_;
  Connection main_;
  std::array<std::optional<Connection>, kListeners> listeners_;
  std::unique_ptr<RedisModel> model_;
  std::vector<Message> messages_;  // the model's messages that are not compared yet
  std::string difference_;
  absl::btree_map<std::string, int64_t> seen_;
  int64_t commands_ = 0;
};

}  // namespace distlock::sim
