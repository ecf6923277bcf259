// SPDX-License-Identifier: Apache-2.0
//
// One broker process of a simulated world: a core, its command connection (in order each way; what was sent before a break
// may still run), its hand-off channel, its pauses, crashes and restarts.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/broker.h"
#include "env.h"

namespace distlock::core {

class Node {
 public:
  Node(Env& env, int index, std::function<void(const Notify&)> tell, std::function<void()> died);

  void Start();
  void Crash();
  void Pause(Duration time);
  void BreakLink(const std::string& cause);
  void BreakChannel();
  void Post(Input input);  // to the core, when it runs

  // A hand-off notice for the broker `number`; whether it is this one and listens.
  bool Hear(uint64_t number, const GrantNotice& notice);

  int index() const { return index_; }
  bool alive() const { return broker_ != nullptr; }
  uint64_t life() const { return life_; }
  BrokerStats Stats() const { return broker_->Stats(); }

 private:
  // One command connection, also after its end: what is in flight then still arrives, or not.
  struct Wire {
    std::deque<StoreCommand> sent;  // not run yet
    std::deque<OpId> unanswered;
    Instant last_arrival{};
    Instant last_reply{};
    Instant held_until{};
    uint64_t broker = 0;
    bool broken = false;
  };

  void Step(Input input);
  void Perform(std::vector<Effect>& effects);
  void ArmTimer();
  void Submit(StoreCommand command);
  void Execute(const std::shared_ptr<Wire>& wire);
  void Connect(Duration delay);
  void CutWire();
  void CountCommand(const StoreCommand& command);

  Env& env_;
  const int index_;
  const std::function<void(const Notify&)> tell_;
  const std::function<void()> died_;
  std::unique_ptr<Broker> broker_;
  uint64_t life_ = 0;
  uint64_t number_ = 0;
  std::shared_ptr<Wire> wire_;  // null: not connected
  bool subscribed_ = false;
  bool ghost_ = false;          // the store still counts a listener that is gone
  uint64_t channel_life_ = 0;
  Instant last_notice_{};
  Instant paused_until_{};
  std::deque<Input> inbox_;     // while paused
  Instant timer_at_ = kNever;
  uint64_t timer_ = 0;
  Instant ticked_{};
  int ticks_ = 0;               // in the same instant
  std::map<LockName, std::pair<int64_t, int>> tends_;  // per second
};

}  // namespace distlock::core
