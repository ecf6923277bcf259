// SPDX-License-Identifier: Apache-2.0
#include "rpc/known_callers.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "access/identify.h"
#include "rpc/guarded.h"

namespace distlock::rpc {
namespace {

constexpr uint64_t kHere = 5;
constexpr uint64_t kSameSlot = kHere + 1024;

Subject SubjectOf(const std::shared_ptr<const access::Rights>& rights, int64_t proof_until_s = kNow + 100) {
  const access::Caller caller{
      .principals = {}, .name = "somebody", .peer = "p", .token = {}, .proof_until_s = proof_until_s};
  return {.caller = std::make_shared<const access::Caller>(caller),
          .rights = rights,
          .account = std::make_shared<access::Account>(),
          .generation = 3};
}

TEST(KnownCallersTest, WhatIsRememberedIsFound) {
  KnownCallers known;
  EXPECT_FALSE(known.Find(0, 0, kNow));
  const auto rights = std::make_shared<const access::Rights>();
  const Subject subject = SubjectOf(rights);
  known.Remember(kHere, subject);
  const auto found = known.Find(kHere, 3, kNow);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->caller, subject.caller);
  EXPECT_EQ(found->rights, rights);
  EXPECT_EQ(found->account, subject.account);
  EXPECT_EQ(found->generation, 3U);
}

TEST(KnownCallersTest, AnotherConnectionIsAnotherCaller) {
  KnownCallers known;
  const auto rights = std::make_shared<const access::Rights>();
  known.Remember(kHere, SubjectOf(rights));
  EXPECT_FALSE(known.Find(kSameSlot, 3, kNow));
  known.Remember(kSameSlot, SubjectOf(rights));
  EXPECT_TRUE(known.Find(kSameSlot, 3, kNow));
  EXPECT_FALSE(known.Find(kHere, 3, kNow));
}

TEST(KnownCallersTest, NothingIsKnownByAnotherPolicy) {
  KnownCallers known;
  const auto rights = std::make_shared<const access::Rights>();
  known.Remember(kHere, SubjectOf(rights));
  EXPECT_FALSE(known.Find(kHere, 4, kNow));
}

TEST(KnownCallersTest, NothingIsKnownOnceAProofHasEnded) {
  KnownCallers known;
  const auto rights = std::make_shared<const access::Rights>();
  known.Remember(kHere, SubjectOf(rights, kNow + 1));
  EXPECT_TRUE(known.Find(kHere, 3, kNow));
  EXPECT_FALSE(known.Find(kHere, 3, kNow + 1));
}

TEST(KnownCallersTest, RightsAreNotKeptAlive) {
  KnownCallers known;
  auto rights = std::make_shared<const access::Rights>();
  const std::weak_ptr<const access::Rights> seen = rights;
  known.Remember(kHere, SubjectOf(rights));
  rights.reset();
  EXPECT_TRUE(seen.expired());
  EXPECT_FALSE(known.Find(kHere, 3, kNow));
}

// Reading the certificate of a connection for each of its calls would cost several times as much as the calls.
TEST(KnownCallersTest, WithoutAPolicyTheCallerIsKnownToo) {
  KnownCallers known;
  const Subject subject = SubjectOf(nullptr);
  known.Remember(kHere, subject);
  const auto found = known.Find(kHere, 3, kNow);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->caller, subject.caller);
  EXPECT_EQ(found->rights, nullptr);
  EXPECT_FALSE(known.Find(kHere, 4, kNow)) << "there may be a policy now";
}

// A broker whose callers are who the kernel says. `found_out` counts how often it has found out who calls, since each
// caller has a quota.
struct OfTheKernel {
  explicit OfTheKernel(const std::string& may)
      : authorizer({.asks = true,
                    .allow_all = false,
                    .on_access = {},
                    .unix_seconds = [] { return kNow; },
                    .boot_ns = [this] { return int64_t{++found_out}; }}) {
    Use(may);
    TestOptions options;
    options.server.authorizer = &authorizer;
    broker = std::make_unique<TestBroker>(options);
  }
  void Use(const std::string& may) {
    authorizer.Replace(PolicyOf("rules:\n- {name: r, who: [anyone], locks: ['*'], may: [" + may +
                                "]}\nlimits:\n- {who: [anyone], sessions: 1000}\n"),
                       nullptr, nullptr);
  }
  grpc::Status Look(v1::LockService::Stub& stub) const {
    v1::GetLockRequest request;
    request.set_key("k");
    return Unary(stub, &v1::LockService::Stub::GetLock, request);
  }
  // Whom a call takes for its caller; or the message of its refusal.
  std::string WhoAmI(const std::string& bearer = "") const {
    grpc::ClientContext context;
    if (!bearer.empty()) context.AddMetadata("authorization", "Bearer " + bearer);
    v1::CheckAccessResponse response;
    const grpc::Status status = broker->admin().CheckAccess(&context, {}, &response);
    return status.ok() ? response.identity() : status.error_message();
  }

  std::atomic<int> found_out = 0;
  Authorizer authorizer;
  std::unique_ptr<TestBroker> broker;
};

TEST(KnownCallersTest, WhoCallsIsFoundOutOnceForAConnectionAndAPolicy) {
  OfTheKernel here("look, acquire");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(here.Look(here.broker->locks()).ok());
  TestSession session(here.broker->locks());
  session.Open().Acquire(2, "k").Send();
  ASSERT_TRUE(session.Next().has_opened());
  EXPECT_EQ(here.found_out, 1);
  const auto other = v1::LockService::NewStub(here.broker->NewChannel());
  EXPECT_TRUE(here.Look(*other).ok());
  EXPECT_EQ(here.found_out, 2);

  here.Use("acquire");
  EXPECT_EQ(here.Look(here.broker->locks()).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(here.Look(*other).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(here.found_out, 4);
}

TEST(KnownCallersTest, AProofOfTheCallsOwnCountsForThatCallAlone) {
  OfTheKernel here("look");
  const std::string uid = "uid:" + std::to_string(getuid());
  const std::string token = access::TokenOf(access::Sha256("x"));
  const auto use = [&](const std::string& shown) {
    const auto tokens = access::Tokens::Parse(access::TokenLine("ops", shown), "t");
    here.authorizer.Replace(nullptr, std::make_shared<const access::Tokens>(*tokens), nullptr);
  };
  use(token);
  EXPECT_EQ(here.WhoAmI(), uid);
  EXPECT_EQ(here.WhoAmI(token), "token:ops");
  EXPECT_EQ(here.WhoAmI(), uid);
  EXPECT_THAT(here.WhoAmI(token + "x"), testing::HasSubstr("not known here"));
  EXPECT_EQ(here.WhoAmI(), uid);
  use(token + "new");
  EXPECT_THAT(here.WhoAmI(token), testing::HasSubstr("not known here"));
}

}  // namespace
}  // namespace distlock::rpc
