// SPDX-License-Identifier: Apache-2.0
//
// Leases that move between two brokers of this process. The brokers know nothing of each other: each adopts what it is
// asked to.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "distlock/client.h"
#include "fake_broker.h"

namespace distlock {
namespace {

using std::chrono::milliseconds;
using testing::FakeBroker;
using v1::SessionCommand;

class Moves : public ::testing::Test {
 protected:
  // The client's first session goes to former(), whichever of the two that is.
  Moves() {
    EXPECT_TRUE(client_.MakeMutex("warm up").Lock().ok());
    first_ = brokers_[0].Streams() > 0 ? 0 : 1;
  }

  FakeBroker& former() { return brokers_[first_]; }
  FakeBroker& next() { return brokers_[1 - first_]; }

  static std::vector<std::string> RequestIds(FakeBroker& broker) {
    std::vector<std::string> ids;
    for (const SessionCommand& command : broker.Commands(SessionCommand::kAdopt)) {
      ids.push_back(command.adopt().request_id());
    }
    return ids;
  }

  FakeBroker brokers_[2];
  int first_ = 0;
  std::atomic<int> drains_ = 0;
  Client client_{{.address = absl::StrCat(brokers_[0].address(), ",", brokers_[1].address()),
                  .reconnect_initial = milliseconds(5),
                  .reconnect_max = milliseconds(50),
                  .on_draining = [this](Duration) { ++drains_; }}};
};

TEST_F(Moves, ADrainMovesAllAndTheProgramNeedNotKnow) {
  FakeBroker& from = former();
  FakeBroker& to = next();
  std::vector<Guard> guards;
  std::vector<int64_t> tokens;
  for (int i = 0; i < 1000; ++i) {
    guards.push_back(client_.MakeMutex(absl::StrCat("k", i), {.owner = "me"}).Lock().value());
    tokens.push_back(guards.back().token());
  }
  from.Drain();
  ASSERT_TRUE(from.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kGoodbye) == 1; }));
  for (size_t i = 0; i < guards.size(); ++i) {
    EXPECT_EQ(guards[i].state(), LockState::kHeld);
    EXPECT_EQ(guards[i].token(), tokens[i]);
    EXPECT_EQ(guards[i].lease_id(), absl::StrCat("secret-", tokens[i], " moved"));
    EXPECT_FALSE(guards[i].stop_token().stop_requested());
  }
  const std::vector<std::string> ids = RequestIds(to);
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), guards.size()) << "each its own";
  EXPECT_EQ(ids.front().size(), 32u);
  EXPECT_EQ(ids.front().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(to.Commands(SessionCommand::kAdopt).front().adopt().lock().owner(), "me");
  EXPECT_LT(to.Messages(), 100u) << "in batches";
  EXPECT_EQ(drains_, 0);
  EXPECT_FALSE(client_.draining());
  EXPECT_TRUE(client_.MakeMutex("new").Lock().ok());
  EXPECT_EQ(guards[0].Release(), ReleaseOutcome::kReleased);
  EXPECT_EQ(to.Count(SessionCommand::kRelease), 2u);
}

TEST_F(Moves, WhatNoBrokerAdoptsIsLostWithTheDrain) {
  Guard guard = client_.MakeMutex("a").Lock().value();
  FakeBroker& from = former();
  v1::SessionEvent lost;
  lost.set_id(from.LastAcquireId());
  next().Set([](FakeBroker::Behaviour& b) { b.refuse_adoptions = v1::REFUSAL_REASON_NOT_SUPPORTED; });
  from.Drain();
  ASSERT_TRUE(from.WaitFor([&](FakeBroker&) { return drains_ == 1; }));
  EXPECT_EQ(guard.state(), LockState::kHeld);
  EXPECT_TRUE(client_.MakeMutex("new").Lock().ok()) << "at the next broker";
  lost.mutable_lost()->set_reason(v1::LOST_REASON_DRAINED);
  from.Send(lost);
  ASSERT_TRUE(from.WaitFor([&](FakeBroker&) { return guard.state() == LockState::kLost; }));
  EXPECT_EQ(guard.end_cause(), EndCause::kDrained);
}

TEST_F(Moves, TheSameRequestIsSentUntilItIsAnswered) {
  Guard guard = client_.MakeMutex("a").Lock().value();
  FakeBroker& to = next();
  to.Set([](FakeBroker::Behaviour& b) { b.answer_adoptions = false; });
  former().Drain();
  ASSERT_TRUE(to.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAdopt) == 1; }));
  to.Set([](FakeBroker::Behaviour& b) { b.answer_adoptions = true; });
  to.BreakStreams();
  ASSERT_TRUE(to.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAdopt) == 2; }));
  EXPECT_EQ(RequestIds(to)[0], RequestIds(to)[1]);
  ASSERT_TRUE(to.WaitFor([&](FakeBroker&) { return former().Count(SessionCommand::kGoodbye) == 1; }));
  EXPECT_EQ(guard.state(), LockState::kHeld);
}

TEST_F(Moves, AReleaseThatCrossesTheMoveReachesBoth) {
  Guard guard = client_.MakeMutex("a").Lock().value();
  FakeBroker& from = former();
  FakeBroker& to = next();
  to.Set([](FakeBroker::Behaviour& b) { b.answer_adoptions = false; });
  from.Drain();
  ASSERT_TRUE(to.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAdopt) == 1; }));
  EXPECT_EQ(guard.Release(), ReleaseOutcome::kReleased);
  EXPECT_FALSE(from.HeldByAnybody("a"));
  const auto releases = to.Commands(SessionCommand::kRelease);
  ASSERT_EQ(releases.size(), 1u);
  EXPECT_EQ(releases[0].release().acquire_id(), to.Commands(SessionCommand::kAdopt)[0].id());
  EXPECT_TRUE(from.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kGoodbye) == 1; }));
}

TEST_F(Moves, WaitersGoOnAtTheNextBroker) {
  FakeBroker& from = former();
  FakeBroker& to = next();
  from.Hold("a");
  std::thread drainer([&] {
    EXPECT_TRUE(from.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAcquire) == 2; }));
    from.Drain();
  });
  EXPECT_TRUE(client_.MakeMutex("a").Lock().ok());
  drainer.join();
  EXPECT_EQ(to.Count(SessionCommand::kAcquire), 1u);
  EXPECT_EQ(from.Count(SessionCommand::kCancel), 0u) << "that would give up its place";
}

TEST_F(Moves, TheClientMayCloseInTheMiddle) {
  FakeBroker& from = former();
  FakeBroker& to = next();
  std::optional<Client> client(std::in_place, ClientOptions{.address = from.address() + "," + to.address()});
  ASSERT_TRUE(client->MakeMutex("a").Lock().ok());
  Guard guard = client->MakeMutex("a").Lock().value();
  for (FakeBroker& broker : brokers_) broker.Set([](FakeBroker::Behaviour& b) { b.answer_adoptions = false; });
  FakeBroker& held_by = from.HeldByAnybody("a") ? from : to;
  FakeBroker& other = &held_by == &from ? to : from;
  held_by.Drain();
  ASSERT_TRUE(other.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAdopt) >= 1; }));
  client.reset();
  EXPECT_EQ(guard.end_cause(), EndCause::kClientClosed);
  EXPECT_TRUE(held_by.WaitFor([](FakeBroker& b) { return !b.HeldByAnybody("a"); }));
}

TEST(Resume, ABrokenStreamIsARiskUntilTheLeaseIsAdopted) {
  FakeBroker broker;
  Client client({.address = broker.address(), .reconnect_initial = milliseconds(5), .reconnect_max = milliseconds(50)});
  Guard guard = client.MakeMutex("a", {.resume = true}).Lock().value();
  Guard at_once = client.MakeMutex("b").Lock().value();
  const int64_t token = guard.token();
  broker.Set([](FakeBroker::Behaviour& b) { b.answer_adoptions = false; });
  broker.BreakStreams();
  ASSERT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Count(SessionCommand::kAdopt) == 1; }));
  EXPECT_EQ(at_once.state(), LockState::kLost);
  EXPECT_EQ(guard.state(), LockState::kAtRisk);
  broker.Set([](FakeBroker::Behaviour& b) { b.answer_adoptions = true; });
  broker.BreakStreams();
  ASSERT_TRUE(broker.WaitFor([&](FakeBroker&) { return guard.state() == LockState::kHeld; }));
  EXPECT_EQ(guard.token(), token);
  EXPECT_EQ(guard.Release(), ReleaseOutcome::kReleased);
  EXPECT_FALSE(broker.HeldByAnybody("a"));
}

TEST(Resume, ARefusalAsNotHeldIsALoss) {
  FakeBroker broker(FakeBroker::Behaviour{.refuse_adoptions = v1::REFUSAL_REASON_NOT_HOLDER});
  Client client({.address = broker.address(), .reconnect_initial = milliseconds(5)});
  Guard guard = client.MakeMutex("a", {.resume = true}).Lock().value();
  broker.BreakStreams();
  ASSERT_TRUE(broker.WaitFor([&](FakeBroker&) { return guard.state() == LockState::kLost; }));
  EXPECT_EQ(guard.end_cause(), EndCause::kTaken);
}

}  // namespace
}  // namespace distlock
