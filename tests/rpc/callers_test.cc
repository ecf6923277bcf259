// SPDX-License-Identifier: Apache-2.0
//
// The server knows its callers, and acts against those that cost too much.
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "rpc/fd_identity.h"
#include "rpc/listings.h"
#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

class CutCounter final : public acceptor::Observer {
 public:
  void OnRefused(acceptor::RefuseCause, const std::string&) override {}
  void OnCut(acceptor::CutCause why, const std::string&) override {
    ++(why == acceptor::CutCause::kEarlyCancels ? early : other);
  }
  std::atomic<int> early = 0;
  std::atomic<int> other = 0;
};

TEST(Callers, TheNumberOfADescriptorTellsWhoHasCalled) { EXPECT_TRUE(NamesByDescriptorHold()); }

TEST(Callers, ASessionShowsTheProcessAtItsOtherEnd) {
  TestBroker broker;
  EXPECT_TRUE(broker.server().knows_unix_callers());
  TestSession session(broker.locks());
  session.Open().Send();
  EXPECT_TRUE(session.Next().has_opened());
  v1::ListSessionsResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(broker.admin().ListSessions(&context, {}, &response).ok());
  ASSERT_EQ(response.sessions_size(), 1);
  EXPECT_EQ(response.sessions(0).peer(), "unix:uid=" + std::to_string(getuid()) + ",pid=" + std::to_string(getpid()));
}

TEST(Callers, WhoCancelsTooOftenBeforeAnAnswerIsCut) {
  CutCounter observer;
  TestOptions options;
  options.server.acceptor.observer = &observer;
  options.server.acceptor.calls.early_cancels_per_second = 0.001;
  options.server.acceptor.calls.early_cancels_at_once = 3;
  TestBroker broker(options);
  const v1::Grant held = broker.Take("a");
  const auto cancel_one = [&](v1::LockService::Stub& stub) {
    v1::AcquireRequest request;
    request.add_locks()->set_key("a");
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
    v1::AcquireResponse response;
    return stub.Acquire(&context, request, &response).error_code();
  };
  const auto other = v1::LockService::NewStub(broker.NewChannel());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cancel_one(*other), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(observer.early, 0);
  while (observer.early == 0) cancel_one(*other);
  EXPECT_EQ(observer.early, 1);
  EXPECT_EQ(observer.other, 0);
  broker.Release(held.lease_id());  // on a connection of its own, which lives
}

TEST(ListingsTest, FourAtOnceThenInTurn) {
  Listings listings;
  std::vector<int> ran;
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(listings.Begin([&ran, i] { return ran.push_back(i), true; }));
  EXPECT_THAT(ran, testing::ElementsAre(0, 1, 2, 3));
  listings.End();
  listings.End();
  EXPECT_THAT(ran, testing::ElementsAre(0, 1, 2, 3, 4, 5));
  for (int i = 0; i < 5; ++i) listings.End();
  EXPECT_THAT(ran, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(listings.Begin([&ran] { return ran.push_back(7), true; }));
  EXPECT_EQ(ran.back(), 7);
}

TEST(ListingsTest, TheLineIsBounded) {
  Listings listings;
  size_t taken = 0;
  while (listings.Begin([] { return true; })) ++taken;
  EXPECT_EQ(taken, Listings::kAtOnce + Listings::kMostWaiting);
}

TEST(ListingsTest, WhoHasGoneUsesNoTurn) {
  Listings listings;
  int gone = 0;
  int ran = 0;
  for (size_t i = 0; i < Listings::kAtOnce; ++i) listings.Begin([] { return true; });
  for (size_t i = 0; i + 1 < Listings::kMostWaiting; ++i) listings.Begin([&gone] { return ++gone, false; });
  listings.Begin([&ran] { return ++ran, true; });
  listings.End();
  EXPECT_EQ(gone, Listings::kMostWaiting - 1);
  EXPECT_EQ(ran, 1);
  for (size_t i = 0; i < Listings::kAtOnce; ++i) listings.End();
  for (size_t i = 0; i < Listings::kAtOnce; ++i) listings.Begin([] { return false; });
  EXPECT_TRUE(listings.Begin([&ran] { return ++ran, true; }));
  EXPECT_EQ(ran, 2) << "those that had gone have given their turns back";
}

}  // namespace
}  // namespace distlock::rpc
