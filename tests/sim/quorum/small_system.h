// SPDX-License-Identifier: Apache-2.0
//
// Two brokers with the production ballot, three servers with the production scripts, and one client at each broker that
// wants the same lock, gets it and gives it back. Which message arrives next is the caller's choice, so that all orders
// can be tried. Time stands still meanwhile: what only time does, Finish does in one order.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "redis/redis_model.h"
#include "store/redis/codec.h"
#include "store/redlock/ballot/ballot.h"
#include "store/redlock/vote_codec.h"

namespace distlock::sim::quorum {

class SmallSystem {
 public:
  static constexpr size_t kBrokers = 2;
  static constexpr size_t kServers = 3;

  struct Wish {
    core::Mode mode = core::Mode::kExclusive;
    bool waits = true;
  };

  // The clients' wishes, by broker.
  explicit SmallSystem(std::array<Wish, kBrokers> wishes);
  ~SmallSystem();

  // Back to the beginning: both clients have asked.
  void Reset();
  // The steps that can come next; the same for the same steps before.
  std::vector<int> Choices() const;
  void Take(int choice);
  std::string NameOf(int choice) const;
  // A digest of each process's news, in its order: equal for two orders of steps that nobody can tell apart.
  uint64_t digest() const;
  // Lets everything else happen, and time pass, until both clients are done.
  void Finish();
  // The first thing that was wrong; "": nothing.
  const std::string& fault() const { return fault_; }

 private:
  struct Command {
    store::ballot::NodeOp op;
    const lua::ScriptSource* script;
    std::optional<store::SentCommand> plain;
    std::string bytes;
    core::Instant sent;
  };
  struct Reply {
    Command command;
    std::shared_ptr<redisReply> reply;
  };
  // Between a broker and a server. Notices have a connection of their own.
  struct Link {
    std::deque<Command> commands;
    std::deque<Reply> replies;
    std::deque<std::string> notices;
  };
  struct Client {
    enum class State : uint8_t { kAsks, kHolds, kReleases, kDone };
    State state = State::kAsks;
    core::OpId op = 0;  // of the command that is not answered
    uint64_t token = 0;
    bool again = false;
  };
  struct Broker;

  int64_t NowUs() const;
  core::OwnerId OwnerOf(size_t broker) const;
  void Step(size_t broker, store::ballot::Input&& input);
  void Send(size_t broker, const store::ballot::SendTo& send);
  void OnCore(size_t broker, core::Input& input);
  void OnReply(size_t broker, core::StoreReply& reply);
  void Grant(size_t broker, uint64_t token);
  void Ask(size_t broker);
  void Release(size_t broker);
  void RunCommand(size_t broker, size_t server);
  void DeliverReply(size_t broker, size_t server);
  void DeliverNotice(size_t broker, size_t server);
  bool TakeAny();
  void Mix(size_t process, uint64_t what);
  void Fail(const std::string& what);

  const std::array<Wish, kBrokers> wishes_;
  core::Instant now_;
  std::array<std::unique_ptr<RedisModel>, kServers> servers_;
  std::array<std::unique_ptr<Broker>, kBrokers> brokers_;
  std::array<std::array<Link, kServers>, kBrokers> links_;
  std::array<Client, kBrokers> clients_;
  std::array<uint64_t, kBrokers + kServers> heard_{};  // by process
  struct Told {
    size_t broker;
    uint64_t token;
  };
  std::vector<Told> told_;  // grants so far
  std::string fault_;
};

}  // namespace distlock::sim::quorum
