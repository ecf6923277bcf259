// SPDX-License-Identifier: Apache-2.0
//
// The suite that every implementation of Store passes: verbs, outcomes, hand-off, queries and the end. It runs on every
// kind of world: real servers in real time, and the modelled server in virtual time. To run it, instantiate each of the
// fixtures below with the kinds that have what it needs; single_conformance_test.cc shows how.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "harness.h"
#include "store/store.h"
#include "store/store_options.h"

namespace distlock::store {

// Servers keep the end of a key in whole milliseconds, and the key until that millisecond is over.
constexpr core::Duration kKeyTick = std::chrono::milliseconds(1);

// One empty store, and brokers of it as wanted. One thread.
class StoreWorld {
 public:
  virtual ~StoreWorld() = default;
  // Not started. The world outlives it.
  virtual std::unique_ptr<Store> MakeStore(const LockOptions& locks) = 0;
  // Several servers: each of them takes the store's commands.
  virtual bool IsReady(const Store&) { return true; }
  // Several servers: each of them has answered what the store has sent.
  virtual bool IsSettled(const Store&) { return true; }
  // Lets things happen until done() holds. False when that has not come within 20 s by the world's clock.
  [[nodiscard]] virtual bool RunUntil(const std::function<bool()>& done) = 0;
  // Lets that much time pass by the world's clock, and all happen that is due in it.
  virtual void Advance(core::Duration time) = 0;
  // A command to the server, as its administrator gives it. The reply as text, an integer in decimal.
  virtual std::string Command(std::initializer_list<std::string_view> argv) = 0;
  // The server ends all connections, and takes new ones at once.
  virtual void HangUp() = 0;
};

// Traits that select the cases of a world.
struct WorldTraits {
  bool virtual_time = false;  // time passes when the case says so, so half a minute costs nothing
  bool one_server = true;     // it has all locks
  bool has_permits = true;    // as of core::StoreTraits
  bool is_quorum = false;     // as of core::StoreTraits
};

struct StoreKind {
  std::string name;
  WorldTraits traits;
  std::function<std::unique_ptr<StoreWorld>()> make;
  // Each command leaves together with an acquire of another lock: stores may do in one call what leaves together.
  bool in_company = false;
};

// Those of `kinds` that have a trait.
inline std::vector<StoreKind> KindsWith(bool WorldTraits::* trait, std::vector<StoreKind> kinds) {
  std::erase_if(kinds, [trait](const StoreKind& kind) { return !(kind.traits.*trait); });
  return kinds;
}

inline std::string NameOf(const testing::TestParamInfo<StoreKind>& info) { return info.param.name; }
// Else a listing of the tests shows the bytes of the object.
inline void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }

class StoreConformance : public testing::TestWithParam<StoreKind> {
 protected:
  struct Broker {
    std::shared_ptr<Store> store;
    std::unique_ptr<Recorder> seen = std::make_unique<Recorder>();
    core::OpId last_op = 1'000'000;  // of those given by Do
    ~Broker() {
      if (store) store->Stop();
    }
    Broker() = default;
    Broker(Broker&&) = default;
  };

  StoreConformance() : world_(GetParam().make()) {}

  // Started and up.
  Broker MakeBroker(const LockOptions& locks);
  Broker MakeBroker(const std::string& broker_id) { return MakeBroker(LockOptions{.broker_id = broker_id}); }
  bool Await(const std::function<bool()>& done) { return world_->RunUntil(done); }
  // Waits until every server has answered every broker; an answer of a quorum comes before that. With several brokers a
  // quorum gets some time, too: each reckons by itself what time it is at the servers, and so who came first.
  void Settle();
  // Submits, flushes, and waits for the answer. The command's op must be `op`.
  core::StoreReply Ask(Broker& broker, core::OpId op, core::StoreCommand command);
  template <typename Outcome>
  Outcome AskFor(Broker& broker, core::OpId op, core::StoreCommand command) {
    const core::StoreReply reply = Ask(broker, op, std::move(command));
    const auto* outcome = std::get_if<Outcome>(&reply.outcome);
    EXPECT_NE(outcome, nullptr) << "op " << op << " has outcome " << reply.outcome.index();
    return outcome == nullptr ? Outcome{} : *outcome;
  }
  // The same, with an op of its own.
  template <typename Outcome, typename Command>
  Outcome Do(Broker& broker, Command command) {
    command.op = ++broker.last_op;
    return AskFor<Outcome>(broker, broker.last_op, std::move(command));
  }
  absl::StatusOr<LockView> Inspect(Broker& broker, const core::LockName& name, uint32_t max_waiters = 10);

  // For Lock("k"), by n of Owner(n), in order; 0 is nobody, for whom it is blocked.
  std::vector<int> HoldersOf(Broker& broker);
  std::vector<int> WaitersOf(Broker& broker);
  core::RenewResult RenewAs(Broker& broker, const core::OwnerId& owner, uint64_t token);
  // Releases a hold of it.
  core::GiveBackDone GiveBack(Broker& broker, uint8_t owner, uint64_t token = 0);
  // Whether exactly these of this broker's waiters are next after that, by n of Owner(n).
  testing::AssertionResult HandsOn(Broker& broker, uint8_t owner, const std::vector<int>& expected);
  // Whether exactly these are next, as an answer has `told`. A quorum answers once most servers have, and may tell of a
  // next holder with a notice behind that, in any order; `heard`: how many inputs came before the command.
  testing::AssertionResult AreNext(Broker& broker, size_t heard, const std::vector<core::HolderView>& told,
                                   const std::vector<int>& expected);
  testing::AssertionResult OwnersAreNext(Broker& broker, size_t heard, const std::vector<core::HolderView>& told,
                                         const std::vector<core::OwnerId>& expected);

  std::unique_ptr<StoreWorld> world_;
  std::vector<std::weak_ptr<Store>> stores_;  // of the brokers made so far
};

// By n of Owner(n).
template <typename Views>
std::vector<int> NumbersOf(const Views& views) {
  std::vector<int> numbers;
  numbers.reserve(views.size());
  for (const auto& view : views) numbers.push_back(view.owner[0]);
  return numbers;
}

// Needs one_server: these cases take several locks in one command, or need one order of all that is sent.
class StoreConformanceOfOneServer : public StoreConformance {};

// Needs has_permits.
class StoreConformanceOfPermits : public StoreConformance {};

// Not for is_quorum: in these cases one server alone decides about a lock, and tells of it once.
class StoreConformanceOfPrimaries : public StoreConformance {};
class StoreConformanceOfPrimariesOverTime : public StoreConformance {};  // needs virtual_time, too

// Needs virtual_time: these cases wait for half a minute and more.
class StoreConformanceOverTime : public StoreConformance {};

}  // namespace distlock::store
