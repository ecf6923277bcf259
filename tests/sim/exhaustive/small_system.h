// SPDX-License-Identifier: Apache-2.0
//
// Two clients, one lock, one or two brokers with the production core, and a store with the production scripts: every
// step is one Action chosen from outside, and takes no time unless it is time. After each action it has been checked
//  1. that whoever believes in the lock is the store's holder, so that no two believe at once;
//  2. that tokens grow with every grant in the store;
//  3. that each request gets one final answer;
//  4. that a lock that is given up goes to the next in the queue;
//  5. that a core, woken at its deadline, does not ask for the same instant again.
// The first fault ends the simulation. Deterministic; single-threaded. The store outlives it and is emptied by it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/broker.h"
#include "exhaustive/setting.h"
#include "exhaustive/small_client.h"
#include "exhaustive/small_store.h"

namespace distlock::sim {

class SmallSystem {
 public:
  // `log`, if any, is told every step in words.
  SmallSystem(const Setting& setting, SmallStore& store, std::function<void(const std::string&)> log = nullptr);
  SmallSystem(const SmallSystem&) = delete;
  SmallSystem& operator=(const SmallSystem&) = delete;

  // Steps that may be next.
  std::vector<Action> Enabled() const;
  // One of these.
  void Do(Action action);

  // From here on everything arrives and nobody breaks: everybody must be answered, release, and leave; in the end the
  // cores remember nothing and the store has no key but the last token.
  void Finish();

  const std::string& fault() const { return fault_; }  // "" = none

  // Equal for simulations that cannot be told apart from here on: same time, same inputs to each core at the same
  // times, same messages under way, same store, same clients.
  uint64_t Fingerprint() const;

  // How long, in the simulation's time, everybody has waited for an answer in Finish.
  core::Duration served_after() const { return served_after_; }

 private:
  struct Sent {
    store::SentCommand command;
    std::string bytes;
  };
  struct Reply {
    core::StoreReply reply;
    uint64_t digest = 0;
  };
  struct BrokerNode {
    explicit BrokerNode(const core::BrokerConfig& config) : core(config) {}
    core::Broker core;
    Digest history;  // all inputs and when they came: the core is a function of it
    bool up = false;
    std::deque<Sent> sent;  // not run
    std::deque<Reply> replies;
    std::deque<std::deque<Sent>> late;  // of broken connections, the oldest first
    std::deque<std::string> notices;
  };

  bool Can(Verb verb, size_t who) const;
  bool CanClient(Verb verb, const SmallClient& client) const;

  void Acquire(size_t who);
  void GiveBack(size_t who);
  void Cancel(size_t who);
  void Break(size_t who);
  void Reconnect(size_t who);
  void Run(size_t who, std::deque<Sent>& from, bool late);
  void DeliverReply(size_t who);
  void Lose(size_t who, const std::string& cause);
  void Connect(size_t who);
  void Hear(size_t who);
  void Pass();
  void Leap();

  // One input of a core, at now_; `digest` stands for what it says.
  void Step(size_t broker, core::Input input, Digest digest);
  void Tell(size_t broker, const core::Notify& notify);
  void Tick(size_t broker);
  void Beat(size_t who);
  // Something is under way that time will move: more than heartbeats.
  bool TimeMatters() const;
  core::Instant NextInstant() const;
  void CheckStore();
  void CheckBelief();
  void Fail(const std::string& what);
  template <typename Say>
  void Log(Say say) const {
    if (log_) LogText(say());
  }
  void LogText(const std::string& text) const;

  // For Finish.
  bool DeliverAll();
  bool EverybodyServed() const;
  void LetGo();
  bool AtRest() const;
  core::BrokerStats Totals() const;

  const Setting& setting_;
  SmallStore& store_;
  const std::function<void(const std::string&)> log_;
  core::Instant now_;
  std::vector<std::unique_ptr<BrokerNode>> brokers_;
  std::vector<SmallClient> clients_;
  std::vector<uint64_t> sessions_;  // streams each client has had
  std::vector<uint64_t> asked_;     // acquires of each client
  int losses_ = 0;
  core::OwnerId holder_{};
  uint64_t holder_token_ = 0;
  uint64_t last_token_ = 0;
  std::vector<core::Effect> effects_;  // kept for its memory
  std::string fault_;
  core::Duration served_after_{};
};

}  // namespace distlock::sim
