// SPDX-License-Identifier: Apache-2.0
//
// A client that knows several brokers. Its pauses are an hour long: whatever goes on without one is done at once.
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "distlock/client.h"
#include "fake_broker.h"

namespace distlock {
namespace {

using testing::FakeBroker;
using v1::SessionCommand;

constexpr char kNoBroker[] = "unix:///tmp/distlock-nobody-listens-here.sock";

ClientOptions OptionsFor(const std::string& addresses) {
  return {.address = addresses,
          .unreachable_timeout = std::chrono::minutes(1),
          .reconnect_initial = std::chrono::hours(1000),
          .reconnect_max = std::chrono::hours(1000)};
}

std::string Both(const FakeBroker& first, const FakeBroker& second) {
  return absl::StrCat(first.address(), ",", second.address());
}

// Random order: some of these clients begin at the address where nobody is.
TEST(Brokers, OneThatCannotBeReachedIsPassedOver) {
  FakeBroker broker;
  for (int i = 0; i < 10; ++i) {
    Client client(OptionsFor(absl::StrCat(kNoBroker, ",", broker.address())));
    EXPECT_TRUE(client.MakeMutex("a").Lock().ok());
  }
}

TEST(Brokers, OneThatDrainsIsPassedOver) {
  const grpc::Status drains = testing::StatusWith(grpc::StatusCode::UNAVAILABLE, "going down", "DRAINING");
  FakeBroker going(FakeBroker::Behaviour{.open_status = drains});
  FakeBroker broker;
  for (int i = 0; i < 10; ++i) {
    Client client(OptionsFor(Both(going, broker)));
    EXPECT_TRUE(client.MakeMutex("a").Lock().ok());
  }
  EXPECT_LE(going.Streams(), 10u);
}

TEST(Brokers, TheNextOneIsUsedAtOnceWhenAStreamBreaks) {
  std::optional<FakeBroker> first(std::in_place);
  std::optional<FakeBroker> second(std::in_place);
  Client client(OptionsFor(Both(*first, *second)));
  ASSERT_TRUE(client.MakeMutex("a").Lock().ok());
  std::optional<FakeBroker>& used = first->Streams() > 0 ? first : second;
  FakeBroker& other = first->Streams() > 0 ? *second : *first;
  EXPECT_EQ(other.Streams(), 0u) << "one session at a time";
  used.reset();
  EXPECT_TRUE(client.MakeMutex("b").Lock().ok());
  EXPECT_EQ(other.Count(SessionCommand::kAcquire), 1u);
}

TEST(Brokers, ARefusalThatIsNoFaultOfTheBrokerWaits) {
  const grpc::Status full = testing::StatusWith(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", "QUOTA_EXCEEDED");
  FakeBroker first(FakeBroker::Behaviour{.open_status = full});
  FakeBroker second(FakeBroker::Behaviour{.open_status = full});
  ClientOptions options = OptionsFor(Both(first, second));
  options.unreachable_timeout = std::chrono::seconds(3);
  Client client(options);
  EXPECT_EQ(client.MakeMutex("a").Lock().refusal().reason, RefusalReason::kQuotaExceeded);
  EXPECT_EQ(first.Streams() + second.Streams(), 1u);
}

TEST(Brokers, AnElectionIsLookedAtThroughTheBrokerOfTheSession) {
  FakeBroker broker;
  for (int i = 0; i < 4; ++i) {
    Client client(OptionsFor(absl::StrCat(kNoBroker, ",", broker.address())));
    ASSERT_TRUE(client.MakeMutex("a").Lock().ok());
    EXPECT_TRUE(client.MakeElection("e").Look().ok());
  }
}

}  // namespace
}  // namespace distlock
