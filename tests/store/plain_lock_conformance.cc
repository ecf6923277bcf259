// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that makes random calls of readers and writers, through two brokers, and compares who holds and
// who waits with a plain reader-writer lock that serves in the order of arrival.
#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "conformance.h"

namespace distlock::store {
namespace {

using core::Mode;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kRuns = 12;
constexpr int kCalls = 40;
constexpr uint8_t kClients = 6;
// All messages have come, and whoever keeps some of the votes has asked for the others.
constexpr core::Duration kQuiet = milliseconds(600);

class PlainLock {
 public:
  struct Waiter {
    uint8_t client;
    bool shared;
  };

  bool Holds(uint8_t client) const { return readers_.contains(client) || writer_ == client; }
  bool HoldsAlone(uint8_t client) const { return writer_ == client; }
  bool Waits(uint8_t client) const {
    return std::any_of(queue_.begin(), queue_.end(), [&](const Waiter& one) { return one.client == client; });
  }
  // Whether it is granted now. Otherwise it waits, if it wants to.
  bool Acquire(uint8_t client, bool shared, bool waits) {
    if (queue_.empty() && Fits(shared)) {
      Take(client, shared);
      return true;
    }
    if (waits) queue_.push_back({client, shared});
    return false;
  }
  void Release(uint8_t client) {
    readers_.erase(client);
    if (writer_ == client) writer_ = 0;
    HandOn();
  }
  void Withdraw(uint8_t client) {
    std::erase_if(queue_, [&](const Waiter& one) { return one.client == client; });
    HandOn();
  }
  void Downgrade(uint8_t client) {
    writer_ = 0;
    readers_.insert(client);
    HandOn();
  }
  std::vector<int> Holders() const {
    std::vector<int> all(readers_.begin(), readers_.end());
    if (writer_ != 0) all.push_back(writer_);
    return all;
  }
  std::vector<int> Waiters() const {
    std::vector<int> all;
    for (const Waiter& one : queue_) all.push_back(one.client);
    return all;
  }

 private:
  bool Fits(bool shared) const { return writer_ == 0 && (shared || readers_.empty()); }
  void Take(uint8_t client, bool shared) {
    if (shared) {
      readers_.insert(client);
    } else {
      writer_ = client;
    }
  }
  void HandOn() {
    while (!queue_.empty() && Fits(queue_.front().shared)) {
      Take(queue_.front().client, queue_.front().shared);
      queue_.erase(queue_.begin());
    }
  }

  std::set<uint8_t> readers_;
  uint8_t writer_ = 0;
  std::vector<Waiter> queue_;
};

}  // namespace

TEST_P(StoreConformanceOverTime, RandomCallsOfReadersAndWritersActAsOnAPlainLock) {
  std::array<Broker, 2> brokers{MakeBroker("00000000000000aa"), MakeBroker("00000000000000bb")};
  for (int run = 0; run < kRuns; ++run) {
    std::mt19937 dice(static_cast<uint32_t>(run));
    const core::LockName lock = Lock("plain" + std::to_string(run));
    PlainLock plain;
    std::string story;
    for (int call = 0; call < kCalls; ++call) {
      const auto client = static_cast<uint8_t>(1 + dice() % kClients);
      Broker& broker = brokers[client % 2];
      const bool shared = dice() % 2 == 0;
      const bool waits = dice() % 4 != 0;
      const bool downgrades = dice() % 3 == 0;
      if (plain.HoldsAlone(client) && downgrades) {
        story += " downgrade " + std::to_string(client);
        plain.Downgrade(client);
        const auto done = Do<core::DowngradeDone>(broker, core::StoreDowngrade{.name = lock, .owner = Owner(client)});
        EXPECT_EQ(done.result, core::DowngradeDone::Result::kDowngraded) << story;
      } else if (plain.Holds(client)) {
        story += " release " + std::to_string(client);
        plain.Release(client);
        const auto done = Do<core::GiveBackDone>(broker, core::StoreRelease{.name = lock, .owner = Owner(client)});
        EXPECT_TRUE(done.was_holder) << story;
      } else if (plain.Waits(client)) {
        story += " withdraw " + std::to_string(client);
        plain.Withdraw(client);
        Do<core::GiveBackDone>(broker, core::StoreWithdraw{.name = lock, .owner = Owner(client)});
      } else {
        story += (shared ? " read " : " write ") + std::to_string(client) + (waits ? "" : "?");
        const bool granted = plain.Acquire(client, shared, waits);
        core::StoreAcquire acquire = MakeAcquire(0, lock, Owner(client), waits);
        acquire.want.mode = shared ? Mode::kShared : Mode::kExclusive;
        acquire.ttl = seconds(200);
        acquire.op = ++broker.last_op;
        const core::OpId op = acquire.op;
        const core::StoreReply reply = Ask(broker, op, acquire);
        EXPECT_EQ(std::holds_alternative<core::AcquireGranted>(reply.outcome), granted) << story;
        EXPECT_EQ(std::holds_alternative<core::AcquireQueued>(reply.outcome), !granted && waits) << story;
      }
      world_->Advance(kQuiet);
      const auto view = Inspect(broker, lock);
      ASSERT_TRUE(view.ok()) << view.status();
      std::vector<int> holders = NumbersOf(view->holders), expected = plain.Holders();
      std::sort(holders.begin(), holders.end());
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(holders, expected) << "run " << run << ":" << story;
      ASSERT_EQ(NumbersOf(view->waiters), plain.Waiters()) << "run " << run << ":" << story;
    }
  }
}

}  // namespace distlock::store
