// SPDX-License-Identifier: Apache-2.0
#include "rpc/health.h"

#include <chrono>

#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using Status = HealthCheckResponse::ServingStatus;

const std::vector<std::string> kServices = {"", "distlock.v1.LockService", "distlock.v1.AdminService"};

HealthCheckRequest Of(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

grpc::Status Check(TestBroker& broker, const std::string& service, Status* answer) {
  const auto stub = grpc::health::v1::Health::NewStub(broker.NewChannel());
  grpc::ClientContext context;
  HealthCheckResponse response;
  grpc::Status status = stub->Check(&context, Of(service), &response);
  *answer = response.status();
  return status;
}

void ExpectAll(TestBroker& broker, Status wanted) {
  for (const std::string& service : kServices) {
    Status status{};
    EXPECT_TRUE(Check(broker, service, &status).ok());
    EXPECT_EQ(status, wanted) << service;
  }
}

class Watcher {
 public:
  Watcher(TestBroker& broker, const std::string& service)
      : stub_(grpc::health::v1::Health::NewStub(broker.NewChannel())), stream_(stub_->Watch(&context_, Of(service))) {}

  // UNKNOWN, which no broker sends, when the stream has ended.
  Status Next() {
    HealthCheckResponse response;
    return stream_->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
  }
  grpc::Status Finish() { return stream_->Finish(); }
  void Leave() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream_;
};

TEST(HealthTest, CheckFollowsTheStoreAndTheDrain) {
  TestBroker broker;
  ExpectAll(broker, HealthCheckResponse::NOT_SERVING);
  broker.server().SetStoreUp(true);
  ExpectAll(broker, HealthCheckResponse::SERVING);
  broker.server().SetStoreUp(false);
  ExpectAll(broker, HealthCheckResponse::NOT_SERVING);
  broker.server().SetStoreUp(true);
  broker.server().Drain();
  broker.server().SetStoreUp(false);
  broker.server().SetStoreUp(true);
  ExpectAll(broker, HealthCheckResponse::NOT_SERVING);
}

TEST(HealthTest, CheckOfAnUnknownService) {
  TestBroker broker;
  Status status{};
  EXPECT_EQ(Check(broker, "nobody", &status).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(HealthTest, WatchSendsTheStateAndEachChange) {
  TestBroker broker;
  for (const std::string& service : kServices) {
    Watcher watcher(broker, service);
    EXPECT_EQ(watcher.Next(), HealthCheckResponse::NOT_SERVING);
    broker.server().SetStoreUp(true);
    EXPECT_EQ(watcher.Next(), HealthCheckResponse::SERVING);
    broker.server().SetStoreUp(false);
    EXPECT_EQ(watcher.Next(), HealthCheckResponse::NOT_SERVING);
    watcher.Leave();
    EXPECT_EQ(watcher.Next(), HealthCheckResponse::UNKNOWN);
  }
}

TEST(HealthTest, WatchOfAnUnknownServiceGoesOn) {
  TestBroker broker;
  Watcher watcher(broker, "nobody");
  EXPECT_EQ(watcher.Next(), HealthCheckResponse::SERVICE_UNKNOWN);
  broker.server().SetStoreUp(true);
  broker.server().Stop({});
  EXPECT_EQ(watcher.Next(), HealthCheckResponse::UNKNOWN) << "a change that does not concern it was told";
}

TEST(HealthTest, StopEndsEveryWatch) {
  TestBroker broker;
  Watcher watcher(broker, "");
  EXPECT_EQ(watcher.Next(), HealthCheckResponse::NOT_SERVING);
  broker.server().Stop(std::chrono::minutes(10));
  EXPECT_EQ(watcher.Next(), HealthCheckResponse::UNKNOWN);
  EXPECT_EQ(watcher.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace distlock::rpc
