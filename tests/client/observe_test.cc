// SPDX-License-Identifier: Apache-2.0
//
// Election's read-only calls, against a broker that misbehaves on command.
#include <absl/synchronization/notification.h>
#include <absl/time/clock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "distlock/client.h"
#include "fake_broker.h"

namespace distlock {
namespace {

using std::chrono::milliseconds;
using testing::FakeBroker;
using testing::StatusWith;

ClientOptions Options(const FakeBroker& broker) {
  return {.address = broker.address(), .reconnect_initial = milliseconds(5), .reconnect_max = milliseconds(50)};
}

grpc::Status NotFoundByAProxy() { return {grpc::StatusCode::UNIMPLEMENTED, "HTTP status 404"}; }

// Observes boss on a thread of its own until the end of the scope.
class Observer {
 public:
  explicit Observer(Client& client) : election_(client.MakeElection("boss")) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      end_ = election_.Observe(
          [this](const std::optional<Leader>&) {
            if (!told_.HasBeenNotified()) told_.Notify();
          },
          stop);
    });
  }

  void WaitUntilTold() { told_.WaitForNotification(); }
  Refusal End() {
    thread_.join();
    return end_;
  }
  void Stop() { thread_.request_stop(); }

 private:
  Election election_;
  absl::Notification told_;
  Refusal end_;
  std::jthread thread_;
};

TEST(Observe, PausesForAsLongAsTheBrokerAsks) {
  constexpr auto kPause = std::chrono::seconds(1);
  FakeBroker broker(
      FakeBroker::Behaviour{.look_status = StatusWith(grpc::StatusCode::UNAVAILABLE, "later", "DRAINING", kPause)});
  ClientOptions options = Options(broker);
  options.reconnect_max = std::chrono::seconds(2);
  Client client(options);
  Observer observer(client);
  ASSERT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Looks().size() >= 3; }));
  const std::vector<FakeBroker::Look> looks = broker.Looks();
  for (size_t i = 1; i < looks.size(); ++i) EXPECT_GE(looks[i].at - looks[i - 1].at, absl::FromChrono(kPause));
  broker.Set([](FakeBroker::Behaviour& b) { b.look_status = grpc::Status::OK; });
  observer.WaitUntilTold();
}

TEST(Observe, GoesOnWhenAProxyKnowsNoBrokerForAWhile) {
  FakeBroker broker(FakeBroker::Behaviour{.look_status = NotFoundByAProxy()});
  Client client(Options(broker));
  Observer observer(client);
  ASSERT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Looks().size() >= 5; }));
  broker.Set([](FakeBroker::Behaviour& b) { b.look_status = grpc::Status::OK; });
  observer.WaitUntilTold();
  EXPECT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Looks().back().watch; })) << "it watches, and asks no more";
  observer.Stop();
  EXPECT_EQ(observer.End().reason, RefusalReason::kCancelled);
}

TEST(Observe, AsksABrokerThatCannotTellChanges) {
  FakeBroker broker(FakeBroker::Behaviour{.watch_status = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "")});
  Client client(Options(broker));
  Observer observer(client);
  observer.WaitUntilTold();
  EXPECT_TRUE(broker.WaitFor([](FakeBroker& b) { return b.Looks().size() >= 4 && !b.Looks().back().watch; }));
}

TEST(Observe, EndsWithWhatNoFurtherAttemptCanCure) {
  FakeBroker broker(FakeBroker::Behaviour{
      .look_status = StatusWith(grpc::StatusCode::PERMISSION_DENIED, "not you", "PERMISSION_DENIED")});
  Client client(Options(broker));
  Observer observer(client);
  EXPECT_EQ(observer.End().reason, RefusalReason::kPermissionDenied);
}

TEST(Observe, EndsWithItsClient) {
  FakeBroker broker;
  std::optional<Client> client(Options(broker));
  Observer observer(*client);
  observer.WaitUntilTold();
  client.reset();
  EXPECT_EQ(observer.End().reason, RefusalReason::kClientClosed);
}

TEST(Observe, WhatItsCallbackThrowsComesOut) {
  FakeBroker broker;
  Client client(Options(broker));
  Election election = client.MakeElection("boss");
  const auto throws = [](const std::optional<Leader>&) { throw std::runtime_error("the program's own"); };
  EXPECT_THROW((void)election.Observe(throws, {}), std::runtime_error);
  EXPECT_TRUE(election.Look().ok());
}

TEST(Look, TakesOneConnectionForAllElectionsOfAClient) {
  FakeBroker broker("127.0.0.1:0");
  Client client(Options(broker));
  for (const char* name : {"one", "two", "three"}) ASSERT_TRUE(client.MakeElection(name).Look().ok());
  const std::vector<FakeBroker::Look> looks = broker.Looks();
  ASSERT_EQ(looks.size(), 3u);
  EXPECT_EQ(looks[0].peer, looks[1].peer);
  EXPECT_EQ(looks[0].peer, looks[2].peer);
}

TEST(Campaign, RefusesMetadataThatItsValueWouldReplace) {
  FakeBroker broker;
  Client client(Options(broker));
  const LockOptions options{.metadata = {{"host", "h1"}, {kElectionValue, "mine"}}};
  for (const char* value : {"10.0.0.7:9000", ""}) {
    Election election = client.MakeElection("boss", value, options);
    const Result<Leadership> leading = election.Campaign();
    ASSERT_FALSE(leading.ok());
    EXPECT_EQ(leading.refusal().reason, RefusalReason::kInvalidArgument);
    ASSERT_EQ(leading.refusal().field_problems.size(), 1u);
    EXPECT_EQ(leading.refusal().field_problems[0].field, "lock.metadata");
    EXPECT_TRUE(election.Look().ok());
  }
  EXPECT_EQ(broker.Count(v1::SessionCommand::kAcquire), 0u);
}

}  // namespace
}  // namespace distlock
