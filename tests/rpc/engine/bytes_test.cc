// SPDX-License-Identifier: Apache-2.0
//
// Input that is not a valid message.
#include <gmock/gmock.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include "rpc/engine/wire.h"
#include "rpc/test_broker.h"

namespace distlock::rpc {
namespace {

using testing::HasSubstr;
using RawStream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

grpc::Status RawCall(TestBroker& broker, const char* method, const std::string& bytes) {
  const grpc::internal::RpcMethod rpc(method, grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::ClientContext context;
  const grpc::ByteBuffer request = Bytes(bytes);
  grpc::ByteBuffer response;
  return grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(broker.NewChannel().get(), rpc, &context,
                                                                               request, &response);
}

// field 1 (lock) { field 2 (key): "\xff" }
const std::string kBadKey("\x0a\x03\x12\x01\xff", 5);

TEST(Bytes, AStringThatIsNotUtf8IsNamed) {
  TestBroker broker;
  const grpc::Status status = RawCall(broker, "/distlock.v1.LockService/Acquire", kBadKey);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Details(status).reason, "INVALID_ARGUMENT");
  EXPECT_THAT(status.error_message(), HasSubstr("distlock.v1.LockSpec.key"));
  EXPECT_THAT(status.error_message(), HasSubstr("not UTF-8"));
}

TEST(Bytes, GarbageIsAnErrorOfItsCallOnly) {
  TestBroker broker;
  const v1::Grant grant = broker.Take("a");
  const std::string garbage("\xff\xff\xff\xff\xff\xff", 6);
  for (const char* method : {"Acquire", "Renew", "Release", "GetLock", "ListLocks"}) {
    const grpc::Status status = RawCall(broker, (std::string("/distlock.v1.LockService/") + method).c_str(), garbage);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("not a distlock.v1.")) << method;
  }
  EXPECT_TRUE(broker.IsHeld("a"));
}

TEST(Bytes, AMalformedSessionMessageEndsThatStreamOnly) {
  TestBroker broker;
  TestSession other(broker.locks());
  other.Open().Acquire(2, "a").Send();
  while (!other.Next().has_granted()) {
  }
  const grpc::internal::RpcMethod rpc("/distlock.v1.LockService/Session", grpc::internal::RpcMethod::BIDI_STREAMING);
  const auto channel = broker.NewChannel();
  grpc::ClientContext context;
  std::unique_ptr<RawStream> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(channel.get(), rpc,
                                                                                            &context));
  ASSERT_TRUE(stream->Write(Bytes("\xff\xff\xff\xff")));
  grpc::ByteBuffer response;
  while (stream->Read(&response)) {
  }
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Details(status).reason, "INVALID_ARGUMENT");

  other.Heartbeat(1).Send();
  EXPECT_TRUE(other.Next().has_heartbeat_ack());
}

TEST(Bytes, AnOversizedMessageEndsItsCallOnly) {
  TestBroker broker;
  const grpc::Status status = RawCall(broker, "/distlock.v1.LockService/Acquire", std::string(70'000, 'x'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);

  TestSession session(broker.locks());
  session.Open().Acquire(2, "a").Send();
  while (!session.Next().has_granted()) {
  }
  session.Acquire(3, std::string(70'000, 'x')).Send();
  EXPECT_EQ(session.Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(broker.Await([](const core::BrokerStats& stats) { return stats.sessions == 0; }));
  broker.Take("alive");
}

TEST(Bytes, OversizedHeadersHarmNobodyElse) {
  TestBroker broker;
  const auto stub = v1::LockService::NewStub(broker.NewChannel());
  grpc::ClientContext context;
  context.AddMetadata("x-large", std::string(64 * 1024, 'x'));
  v1::GetLockRequest request;
  request.set_key("a");
  v1::GetLockResponse response;
  EXPECT_FALSE(stub->GetLock(&context, request, &response).ok());
  broker.Take("alive");
}

TEST(Bytes, SerializeAndParseAreInverse) {
  v1::GetLockRequest request;
  request.set_key(std::string(100'000, 'k'));
  v1::GetLockRequest read;
  EXPECT_FALSE(Parse(Serialize(request), &read));
  EXPECT_EQ(read.key(), request.key());
  EXPECT_FALSE(Parse(grpc::ByteBuffer(), &read)) << "an empty message";
  // Many slices, as gRPC reads them.
  const std::string bytes = request.SerializeAsString();
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += 1000) slices.emplace_back(bytes.substr(at, 1000));
  EXPECT_FALSE(Parse(grpc::ByteBuffer(slices.data(), slices.size()), &read));
  EXPECT_EQ(read.key(), request.key());
}

}  // namespace
}  // namespace distlock::rpc
