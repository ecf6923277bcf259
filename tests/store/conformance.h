// SPDX-License-Identifier: Apache-2.0
//
// The suite that every implementation of Store passes: verbs, outcomes, hand-off, queries and the end. To run it, make
// a StoreWorld and INSTANTIATE_TEST_SUITE_P(Name, StoreConformance, testing::Values(factory), NameOf).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "harness.h"
#include "store/store.h"

namespace distlock::store {

// One empty store, and brokers of it as wanted.
class StoreWorld {
 public:
  virtual ~StoreWorld() = default;
  // Not started. `broker_id`: 16 hex digits. The world outlives it.
  virtual std::unique_ptr<Store> MakeStore(const std::string& broker_id) = 0;
  // Lets some time pass and things happen.
  virtual void Turn() = 0;
  // The servers end all connections, and take new ones at once.
  virtual void HangUp() = 0;
};

struct StoreKind {
  std::string name;
  std::function<std::unique_ptr<StoreWorld>()> make;
};

inline std::string NameOf(const testing::TestParamInfo<StoreKind>& info) { return info.param.name; }

class StoreConformance : public testing::TestWithParam<StoreKind> {
 protected:
  struct Broker {
    std::unique_ptr<Store> store;
    std::unique_ptr<Recorder> seen = std::make_unique<Recorder>();
    ~Broker() {
      if (store) store->Stop();
    }
    Broker() = default;
    Broker(Broker&&) = default;
  };

  StoreConformance() : world_(GetParam().make()) {}

  // Started and up.
  Broker MakeBroker(const std::string& broker_id);
  bool Await(const std::function<bool()>& done);
  // Submits, flushes, and waits for the answer. The command's op must be `op`.
  core::StoreReply Ask(Broker& broker, core::OpId op, core::StoreCommand command);
  template <typename Outcome>
  Outcome AskFor(Broker& broker, core::OpId op, core::StoreCommand command) {
    const core::StoreReply reply = Ask(broker, op, std::move(command));
    const auto* outcome = std::get_if<Outcome>(&reply.outcome);
    EXPECT_NE(outcome, nullptr) << "op " << op << " has outcome " << reply.outcome.index();
    return outcome == nullptr ? Outcome{} : *outcome;
  }
  absl::StatusOr<LockView> Inspect(Broker& broker, const core::LockName& name, uint32_t max_waiters = 10);

  std::unique_ptr<StoreWorld> world_;
};

}  // namespace distlock::store
