// SPDX-License-Identifier: Apache-2.0
#include "store/open_store.h"
#include "store/text.h"
#include "store_test.h"

namespace distlock::store {
namespace {

using std::chrono::seconds;

class CheckStoreTest : public StoreTest {
 protected:
  // Each as a broker of its own, so that what a failed check leaves behind for a moment does not help the next one.
  absl::Status Check(const StoreUrl& url, core::Duration timeout = seconds(20)) {
    return CheckStore(OptionsFor(url, Cat("00000000000000", ++checks_ + 10)), timeout).status();
  }
  void ExpectSays(const absl::Status& status, absl::StatusCode code, std::string_view part) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_TRUE(Contains(View(status.message()), part)) << status;
    EXPECT_TRUE(View(status.message()).starts_with("unix://") || View(status.message()).starts_with("redis")) << status;
  }

  int checks_ = 0;
};

TEST_F(CheckStoreTest, AGoodServerIsGoodAndLeavesNothingForLong) {
  const auto warnings = CheckStore(OptionsFor(server_->Url()), seconds(20));
  ASSERT_TRUE(warnings.ok()) << warnings.status();
  EXPECT_EQ(warnings->size(), 1u);
  const ReplyPtr keys = admin_.Do({"KEYS", "*"});
  for (size_t i = 0; i < keys->elements; ++i) {
    const ReplyPtr left = admin_.Do({"PTTL", Text(*keys->element[i])});
    EXPECT_TRUE(left->integer == -2 || (left->integer > 0 && left->integer <= 2000)) << Text(*keys->element[i]);
  }
  admin_.Do({"CONFIG", "SET", "save", "3600 1"});
  EXPECT_TRUE(CheckStore(OptionsFor(server_->Url()), seconds(20))->empty());
}

TEST_F(CheckStoreTest, AServerWhoseRewritesEndAppendfsyncAlwaysIsWarnedOf) {
  admin_.Do({"CONFIG", "SET", "appendfsync", "always"});
  admin_.Do({"CONFIG", "SET", "no-appendfsync-on-rewrite", "yes"});
  admin_.Do({"CONFIG", "SET", "appendonly", "yes"});
  const auto warnings = CheckStore(OptionsFor(server_->Url()), seconds(20));
  ASSERT_TRUE(warnings.ok()) << warnings.status();
  ASSERT_EQ(warnings->size(), 1u);
  EXPECT_TRUE(Contains(warnings->front(), "run CONFIG SET no-appendfsync-on-rewrite no")) << warnings->front();
  admin_.Do({"CONFIG", "SET", "no-appendfsync-on-rewrite", "no"});
  EXPECT_TRUE(CheckStore(OptionsFor(server_->Url()), seconds(20))->empty());
}

TEST_F(CheckStoreTest, Unreachable) {
  StoreUrl url = server_->Url();
  url.address.path += ".not";
  ExpectSays(Check(url, seconds(1)), absl::StatusCode::kUnavailable, "No such file");
}

TEST_F(CheckStoreTest, WrongPasswordWithoutShowingIt) {
  admin_.Do({"CONFIG", "SET", "requirepass", "right"});
  StoreUrl url = server_->Url();
  ExpectSays(Check(url), absl::StatusCode::kUnauthenticated, "NOAUTH");
  url.password = "hushhush";
  const absl::Status status = Check(url);
  ExpectSays(status, absl::StatusCode::kUnauthenticated, "password");
  EXPECT_FALSE(Contains(status.ToString(), "hushhush")) << status;
}

TEST_F(CheckStoreTest, EvictingServer) {
  admin_.Do({"CONFIG", "SET", "maxmemory", "100mb"});
  admin_.Do({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  ExpectSays(Check(server_->Url()), absl::StatusCode::kFailedPrecondition, "allkeys-lru");
}

TEST_F(CheckStoreTest, ReplicaMayBecomeAPrimary) {
  admin_.Do({"REPLICAOF", "127.0.0.1", "1"});
  ExpectSays(Check(server_->Url(), seconds(1)), absl::StatusCode::kUnavailable, "127.0.0.1:1");
}

TEST_F(CheckStoreTest, FullServerIsAWarning) {
  admin_.Do({"CONFIG", "SET", "maxmemory", "1"});
  const auto warnings = CheckStore(OptionsFor(server_->Url()), seconds(20));
  ASSERT_TRUE(warnings.ok()) << warnings.status();
  EXPECT_EQ(warnings->size(), 2u);
}

TEST_F(CheckStoreTest, EachMissingRightShowsBeforeServing) {
  // Only other topologies, rare paths or niceties need these.
  const std::vector<std::string> optional = {"-@all", "resetchannels", "+type",       "+exists",        "+zrank",
                                             "+scan", "+ping",         "+config|get", "+client|setname"};
  EXPECT_TRUE(Check(LimitedUser(admin_, server_->Url())).ok());
  for (const auto& right : NeededRights()) {
    if (std::find(optional.begin(), optional.end(), right) != optional.end()) continue;
    const absl::Status status = Check(LimitedUser(admin_, server_->Url(), right));
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << right << ": " << status;
  }
}

TEST_F(CheckStoreTest, AFileThatTlsCannotUseIsNamed) {
  StoreUrl url;
  url.transport = StoreUrl::Transport::kTls;
  url.address.host = "localhost";
  url.tls.ca = "/no/such/ca.pem";
  ExpectSays(Check(url), absl::StatusCode::kInvalidArgument, "/no/such/ca.pem");
}

}  // namespace
}  // namespace distlock::store
