// SPDX-License-Identifier: Apache-2.0
//
// A broker of a simulation: the production core and the production store, with simulations of their surroundings in the
// daemon: the mailbox, the timer, and the front that speaks the contract with clients.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/broker.h"
#include "simulation/front.h"
#include "simulation/network.h"
#include "store/store.h"
#include "store/store_options.h"

namespace distlock::sim {

class BrokerProcess : public Process, private store::StoreListener {
 public:
  // The directory leads to its store, at kStoreHost; or, by the simulation's topology, to the sentinels at these
  // addresses and what they name, to the nodes of a Cluster, or to the servers of a quorum.
  BrokerProcess(Env& env, int number, const Directory& directory, std::vector<store::ServerAddress> servers = {});
  static constexpr const char* kStoreHost = Directory::kStoreHost;
  ~BrokerProcess() override;

  void Start();
  // The start of its life, or its last one.
  Instant started_at() const { return started_at_; }
  void Kill(Duration heard_within);
  // Kills it and starts it again.
  void Restart(Duration heard_within, Duration down);
  void Drain(Duration timeout);
  void Force(core::ForceRelease force);
  // As ShardSet has it: a question, behind the inputs that wait. Its answer comes by a callback of the reader, perhaps
  // after this life.
  using Question = std::function<void(store::StoreReader&)>;
  void Look(Question ask);
  // The process that opened the session has ended; this broker learns of it so much later, if it lives until then.
  void HearOfDeath(core::SessionId session, Duration later);

  // The calls of clients, in this process; only while it is alive.
  Front& front() { return *front_; }
  bool draining() const { return front_ != nullptr && front_->draining(); }
  // Its connections to the store; only while it is alive.
  const SimDialer& dialer() const { return *dialer_; }
  core::BrokerStats Stats() const { return core_->Stats(); }
  const std::string& broker_id() const { return broker_id_; }

 private:
  struct Mail {
    core::Input input;
    Question question;  // if set, this
  };
  void Enqueue(core::Input input) { Enqueue(Mail{std::move(input), nullptr}); }
  void Enqueue(Mail mail);
  void TakeMail();
  void Step(core::Input input);
  void OnStoreInput(core::Input&& input) override;
  void Perform();
  void FlushStore();
  void OpenStore();
  std::unique_ptr<store::Store> MakeStore(store::StoreOptions options);
  void ArmTimer();
  void OnTimer();
  void OnResumed() override;
  Instant CoreNow() const { return Instant(LocalTime()); }

  const int number_;
  const Directory& directory_;
  const std::vector<store::ServerAddress> servers_;  // empty: kStoreHost
  std::string broker_id_;
  Instant started_at_{};
  std::unique_ptr<core::Broker> core_;
  std::shared_ptr<SimDialer> dialer_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Front> front_;
  std::deque<Mail> mail_;
  bool mail_waits_ = false;
  std::vector<core::Effect> effects_;
  std::deque<core::Input> todo_;  // inputs that come while a step is performed
  bool stepping_ = false;
  bool submitted_ = false;  // there are commands that are not flushed yet
  bool flush_waits_ = false;
  Instant timer_at_ = kNever;
  uint64_t timer_ = 0;
  Instant ticked_{};
  int ticks_ = 0;
};

}  // namespace distlock::sim
