// SPDX-License-Identifier: Apache-2.0
//
// The errors of a real distlockd, read with googleapis.
#include <grpcpp/create_channel.h>

#include <string>

#include "daemon_fixture.h"
#include "google_readings.h"

namespace distlock {
namespace {

using testing::ReadWithBoth;

class GoogleapisDaemonTest : public DaemonTest {
 protected:
  // One try.
  grpc::Status Acquire(const std::string& key) {
    grpc::ClientContext context;
    v1::AcquireRequest request;
    v1::LockSpec& lock = *request.add_locks();
    lock.set_key(key);
    lock.mutable_max_wait();
    v1::AcquireResponse response;
    return stub_->Acquire(&context, request, &response);
  }

  const std::unique_ptr<v1::LockService::Stub> stub_ =
      v1::LockService::NewStub(grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials()));
};

TEST_F(GoogleapisDaemonTest, AHeldLock) {
  Result<Guard> held = one_.MakeMutex("k", {.owner = "bob"}).Lock();
  ASSERT_TRUE(held.ok()) << held.refusal().message;
  const grpc::Status refused = Acquire("k");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::ABORTED);
  const wire::StatusDetails details = ReadWithBoth(refused.error_details());
  EXPECT_EQ(details.reason, "LOCK_HELD");
  EXPECT_EQ(details.holder_id, held->holder_id());
  EXPECT_EQ(details.fencing_token, held->token());
  EXPECT_EQ(details.owner, "bob");
  EXPECT_FALSE(details.retry_delay) << "the broker renews it: nobody knows when its holder will be gone";
  EXPECT_EQ(details.block_time_left, "");
}

TEST_F(GoogleapisDaemonTest, ALockWhoseLeaseEndsByItself) {
  ASSERT_TRUE(Acquire("k").ok());
  const grpc::Status refused = Acquire("k");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_TRUE(ReadWithBoth(refused.error_details()).retry_delay);
}

TEST_F(GoogleapisDaemonTest, AWrongField) {
  const grpc::Status refused = Acquire("");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const wire::StatusDetails details = ReadWithBoth(refused.error_details());
  EXPECT_EQ(details.reason, "INVALID_ARGUMENT");
  EXPECT_EQ(details.field_violations.size(), 1u);
}

}  // namespace
}  // namespace distlock
