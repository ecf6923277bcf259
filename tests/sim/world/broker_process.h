// SPDX-License-Identifier: Apache-2.0
//
// A broker of a world: the production core, with what stands around it in the daemon: the mailbox, the store's connections,
// and the front that speaks the contract with clients.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/broker.h"
#include "world/front.h"
#include "world/store_link.h"

namespace distlock::sim {

class BrokerProcess : public Process {
 public:
  BrokerProcess(Env& env, int number, std::function<StoreProcess&()> primary);
  ~BrokerProcess() override;

  void Start();
  void Kill(Duration heard_within);
  // Kills it and starts it again.
  void Restart(Duration heard_within, Duration down);
  void Drain(Duration timeout);
  void Force(core::ForceRelease force);

  // What clients call, in this process; only while it is alive.
  Front& front() { return *front_; }
  StoreLink& link() { return *link_; }
  core::BrokerStats Stats() const { return core_->Stats(); }
  const std::string& broker_id() const { return broker_id_; }

 private:
  void Enqueue(core::Input input);
  void TakeMail();
  void Step(core::Input input);
  void Perform();
  void ArmTimer();
  void OnTimer();
  void OnResumed() override;
  Instant CoreNow() const { return Instant(LocalTime()); }

  const int number_;
  const std::function<StoreProcess&()> primary_;
  std::string broker_id_;
  std::unique_ptr<core::Broker> core_;
  std::unique_ptr<StoreLink> link_;
  std::unique_ptr<Front> front_;
  std::deque<core::Input> mail_;
  bool mail_waits_ = false;
  std::vector<core::Effect> effects_;
  std::deque<core::Input> todo_;  // while a step is being performed
  bool stepping_ = false;
  Instant timer_at_ = kNever;
  uint64_t timer_ = 0;
  Instant ticked_{};
  int ticks_ = 0;
};

}  // namespace distlock::sim
