// SPDX-License-Identifier: Apache-2.0
#include "rpc/server.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

using testing::HasSubstr;

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "distlock-listen-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

TEST(ServerTest, ReportsItsPortAndRefusesATakenOne) {
  TestOptions options;
  options.server.acceptor.listen = {"127.0.0.1:0"};
  TestBroker broker(options);
  EXPECT_THAT(broker.address(), testing::MatchesRegex("127\\.0\\.0\\.1:[1-9][0-9]*"));
  broker.Take("a");

  ServerOptions second{.acceptor = {.listen = {broker.address()}}};
  const auto refused = Server::Start(second, broker.shards(), {});
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("cannot listen on " + broker.address()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("another process has this port"));
}

TEST(ServerTest, AnEarlyCallWaitsForThePort) {
  const Folder folder;
  const std::string socket = "unix://" + (folder / "early.sock");
  grpc::ChannelArguments eager;
  for (const char* backoff :
       {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS}) {
    eager.SetInt(backoff, 1);
  }
  eager.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  for (int i = 0; i < 20; ++i) {
    std::thread asker([&] {
      const auto admin =
          v1::AdminService::NewStub(grpc::CreateCustomChannel(socket, grpc::InsecureChannelCredentials(), eager));
      v1::GetStatusResponse status;
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      ASSERT_TRUE(admin->GetStatus(&context, {}, &status).ok());
      ASSERT_EQ(status.listen_addresses_size(), 2);
      EXPECT_THAT(status.listen_addresses(1), testing::Not(testing::EndsWith(":0")));
    });
    TestOptions options;
    options.server.acceptor.listen = {socket, "127.0.0.1:0"};
    TestBroker broker(options);
    asker.join();
  }
}

TEST(ServerTest, ASocketIsForUserAndGroup) {
  TestBroker broker;
  struct stat found{};
  ASSERT_EQ(stat(acceptor::UnixPath(broker.address()).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0660u);
}

AdminAuthorizer::Plan PlanOf(const std::vector<std::string>& listen, const std::vector<std::string>& admin_listen) {
  AdminAuthorizer::Plan plan;
  EXPECT_TRUE(AdminAuthorizer::MakePlan(listen, admin_listen, &plan).ok());
  return plan;
}

TEST(AdminAuthorizer, WhereDrainAndForceReleaseAreServed) {
  const std::string socket = "unix:///run/d.sock", tcp = "127.0.0.1:1", own = "127.0.0.1:2";
  using enum acceptor::Kind;
  const auto usual = PlanOf({socket, tcp}, {});
  EXPECT_TRUE(usual.authorizer.Admits(kUnix) && usual.own.empty());
  EXPECT_FALSE(usual.authorizer.Admits(kTcp) || usual.authorizer.Admits(kTls) || usual.authorizer.Admits(std::nullopt));
  const auto apart = PlanOf({socket, tcp}, {own});
  EXPECT_FALSE(apart.authorizer.Admits(kUnix) || apart.authorizer.Admits(kTcp));
  EXPECT_THAT(apart.own, testing::ElementsAre(own));
  const auto both = PlanOf({socket, tcp}, {tcp, own});
  EXPECT_TRUE(!both.authorizer.Admits(kUnix) && both.authorizer.Admits(kTcp) && both.authorizer.Admits(kTls));
  EXPECT_FALSE(both.authorizer.Admits(std::nullopt));
  EXPECT_THAT(both.own, testing::ElementsAre(own));
  AdminAuthorizer::Plan plan;
  EXPECT_THAT(std::string(AdminAuthorizer::MakePlan({socket, tcp, "127.0.0.1:3"}, {tcp}, &plan).message()),
              HasSubstr("but not 127.0.0.1:3"));
}

bool HasReflection(TestBroker& broker) {
  const grpc::internal::RpcMethod rpc("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                      grpc::internal::RpcMethod::BIDI_STREAMING);
  const auto channel = broker.NewChannel();
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::RenewRequest, v1::RenewRequest>> stream(
      grpc::internal::ClientReaderWriterFactory<v1::RenewRequest, v1::RenewRequest>::Create(channel.get(), rpc,
                                                                                            &context));
  stream->WritesDone();
  v1::RenewRequest response;
  while (stream->Read(&response)) {
  }
  return stream->Finish().error_code() != grpc::StatusCode::UNIMPLEMENTED;
}

TEST(ServerTest, ReflectionIsServedOnlyWhenAskedFor) {
  TestBroker without;
  EXPECT_FALSE(HasReflection(without));
  TestOptions options;
  options.server.reflection = true;
  TestBroker with(options);
  EXPECT_TRUE(HasReflection(with));
}

TEST(ServerTest, StopsWithCallsUnanswered) {
  TestBroker broker;
  broker.store().HoldReplies(true);
  grpc::ClientContext context;
  v1::HoldRequest request;
  request.mutable_lock()->set_key("a");
  auto hold = broker.locks().Hold(&context, request);
  TestSession session(broker.locks());
  session.Open().Acquire(2, "b").Send();
  ASSERT_TRUE(broker.store().Await([](const auto& counts) { return counts.acquires == 2; }));
  broker.server().Stop(std::chrono::seconds(5));
  broker.store().HoldReplies(false);
  v1::HoldResponse response;
  while (hold->Read(&response)) {
  }
  EXPECT_EQ(Details(hold->Finish()).reason, "DRAINING");
  EXPECT_EQ(Details(session.Finish()).reason, "DRAINING");
}

}  // namespace
}  // namespace distlock::rpc
