// SPDX-License-Identifier: Apache-2.0
//
// A program that asks brokers what is held, one question after the other, each of any live broker: GetLock, CheckToken,
// or ListLocks in pages. What it is shown goes into the history.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/lock_view.h"
#include "simulation/broker_process.h"

namespace distlock::sim {

class Looker : public Process {
 public:
  Looker(Env& env, int number, std::vector<std::unique_ptr<BrokerProcess>>& brokers);

  void Start();
  void Leave() { left_ = true; }

 private:
  void AskLater();
  void Ask();
  void AskAboutLock(bool token);
  void AskForPage(const std::string& from);
  void OnLock(const core::LockView& view);
  void OnPage(const store::LockPage& page, int64_t asked_ns);
  // Sends a question to the broker; `say` runs in it and tells the answer, by a function to run here.
  using Tell = std::function<void(std::function<void()>)>;
  void Send(std::function<void(store::StoreReader&, Tell)> say);
  void Over();
  Look Shown(const core::LockView& view, int64_t asked_ns) const;
  uint64_t SomeToken(int32_t lock);
  int32_t LockOf(const core::LockName& name) const;

  std::vector<std::unique_ptr<BrokerProcess>>& brokers_;
  BrokerProcess* broker_ = nullptr;
  WirePtr wire_;
  Look look_;  // the question
  int pages_ = 0;
  uint32_t page_size_ = 0;
  uint64_t question_ = 0;
  bool left_ = false;
};

}  // namespace distlock::sim
