// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <memory>
#include <set>

#include "rpc/call/one_call.h"
#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

template <typename Request>
std::pair<grpc::Status, v1::ListSessionsResponse> List(TestBroker& broker, const Request& fill) {
  v1::ListSessionsRequest request;
  fill(request);
  grpc::ClientContext context;
  v1::ListSessionsResponse response;
  const grpc::Status status = broker.admin().ListSessions(&context, request, &response);
  return {status, response};
}

v1::ListSessionsResponse ListAll(TestBroker& broker) {
  return List(broker, [](v1::ListSessionsRequest&) {}).second;
}

TEST(ListSessions, ShowsStreamsWithTheirLeasesAndWaiters) {
  TestBroker broker;
  EXPECT_EQ(ListAll(broker).sessions_size(), 0);
  TestSession session(broker.locks());
  session.Add(1).mutable_open()->set_client("worker-7");
  session.Acquire(2, "a").Send();
  const std::string id = session.Next().opened().session_id();
  ASSERT_TRUE(session.Next().has_granted());

  v1::HoldRequest wanted;
  wanted.mutable_lock()->set_key("a");
  wanted.mutable_lock()->set_owner("ann");
  grpc::ClientContext context;
  const auto hold = broker.locks().Hold(&context, wanted);
  v1::HoldResponse response;
  ASSERT_TRUE(hold->Read(&response));
  ASSERT_TRUE(response.has_queued());

  const v1::ListSessionsResponse listed = ListAll(broker);
  ASSERT_EQ(listed.sessions_size(), 2);
  EXPECT_EQ(listed.next_page_token(), "");
  const v1::SessionInfo& first = listed.sessions(0);
  EXPECT_EQ(first.session_id(), id);
  EXPECT_EQ(first.client(), "worker-7");
  EXPECT_EQ(first.leases(), 1u);
  EXPECT_EQ(first.waiters(), 0u);
  EXPECT_EQ(first.kind(), v1::STREAM_KIND_SESSION);
  EXPECT_GT(first.open_time().seconds(), 1'700'000'000);
  EXPECT_FALSE(first.peer().empty());
  const v1::SessionInfo& second = listed.sessions(1);
  EXPECT_EQ(second.kind(), v1::STREAM_KIND_HOLD);
  EXPECT_EQ(second.client(), "ann");
  EXPECT_EQ(second.leases(), 0u);
  EXPECT_EQ(second.waiters(), 1u);
  context.TryCancel();
}

TEST(ListSessions, ComesInPages) {
  TestBroker broker;
  std::vector<std::unique_ptr<TestSession>> sessions;
  for (int i = 0; i < 5; ++i) {
    sessions.push_back(std::make_unique<TestSession>(broker.locks()));
    sessions.back()->Open().Send();
    ASSERT_TRUE(sessions.back()->Next().has_opened());
  }
  std::set<std::string> seen;
  std::string token;
  int pages = 0;
  do {
    const auto [status, page] = List(broker, [&](v1::ListSessionsRequest& request) {
      request.set_page_size(2);
      request.set_page_token(token);
    });
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const auto& info : page.sessions()) seen.insert(info.session_id());
    token = page.next_page_token();
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_EQ(pages, 3);
}

TEST(ListSessions, NamesBadFields) {
  TestBroker broker;
  const auto [status, page] = List(broker, [](v1::ListSessionsRequest& request) {
    request.set_page_size(5000);
    request.set_page_token("junk");
  });
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Details(status).fields, testing::UnorderedElementsAre("page_size", "page_token"));
}

using A = v1::AdminService::Stub;

TEST(StoreChanges, AreAskedOfTheBrokerThatRuns) {
  TestBroker broker;
  v1::UpgradeStoreRequest upgrade;
  upgrade.set_to(2);
  const auto [raised, done] = Call<v1::UpgradeStoreResponse>(broker.admin(), &A::UpgradeStore, upgrade);
  EXPECT_TRUE(raised.ok() && done.problem().empty()) << raised.error_message() << done.problem();
  v1::InitQuorumRequest init;
  EXPECT_TRUE(Call<v1::InitQuorumResponse>(broker.admin(), &A::InitQuorum, init).first.ok());
  init.set_all_brokers_stopped(true);
  EXPECT_TRUE(Call<v1::InitQuorumResponse>(broker.admin(), &A::InitQuorum, init).first.ok());
  EXPECT_THAT(broker.changes(), testing::ElementsAre("upgrade 2", "init", "init, stopped"));
}

TEST(StoreChanges, SayWhyTheyWereRefusedAndFailWhereAServerIsAway) {
  TestBroker broker;
  v1::UpgradeStoreRequest upgrade;
  upgrade.set_to(2);
  broker.ChangesEndWith(absl::FailedPreconditionError("a broker reads 1"));
  const auto [said, why] = Call<v1::UpgradeStoreResponse>(broker.admin(), &A::UpgradeStore, upgrade);
  EXPECT_TRUE(said.ok());
  EXPECT_EQ(why.problem(), "a broker reads 1");
  broker.ChangesEndWith(absl::AlreadyExistsError("another quorum"));
  const auto [init_said, init_why] =
      Call<v1::InitQuorumResponse>(broker.admin(), &A::InitQuorum, v1::InitQuorumRequest());
  EXPECT_TRUE(init_said.ok());
  EXPECT_EQ(init_why.problem(), "another quorum");
  broker.ChangesEndWith(absl::UnavailableError("no server"));
  for (const grpc::Status& failed :
       {Call<v1::UpgradeStoreResponse>(broker.admin(), &A::UpgradeStore, upgrade).first,
        Call<v1::InitQuorumResponse>(broker.admin(), &A::InitQuorum, v1::InitQuorumRequest()).first}) {
    EXPECT_EQ(failed.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(Details(failed).reason, "STORE_UNAVAILABLE");
    EXPECT_THAT(failed.error_message(), testing::HasSubstr("no server"));
  }
}

TEST(StoreChanges, ASchemaIsAPositiveNumber) {
  TestBroker broker;
  for (const int32_t to : {0, -1}) {
    v1::UpgradeStoreRequest upgrade;
    upgrade.set_to(to);
    const grpc::Status refused = Call<v1::UpgradeStoreResponse>(broker.admin(), &A::UpgradeStore, upgrade).first;
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(Details(refused).fields, testing::ElementsAre("to"));
  }
  EXPECT_TRUE(broker.changes().empty());
}

}  // namespace
}  // namespace distlock::rpc
