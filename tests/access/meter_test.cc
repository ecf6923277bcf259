// SPDX-License-Identifier: Apache-2.0
#include "access/meter.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "access/policy_cases.h"
#include "access/policy_file.h"

namespace distlock::access {
namespace {

using testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

TEST(Account, WithoutQuotaThereIsNoLimit) {
  Account account;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(account.OpenSession());
  account.Count(1000, 1000);
  EXPECT_TRUE(account.HasRoom(1000));
  EXPECT_EQ(account.Take(0), 0);
}

TEST(Account, BoundsStreamsLeasesAndWaiters) {
  Account account;
  account.SetQuota({.sessions = 2, .leases = 3, .waiters = 4});
  EXPECT_TRUE(account.OpenSession());
  EXPECT_TRUE(account.OpenSession());
  EXPECT_FALSE(account.OpenSession());
  EXPECT_EQ(account.sessions(), 2);
  account.CloseSession();
  EXPECT_TRUE(account.OpenSession());
  EXPECT_TRUE(account.HasRoom(4));
  EXPECT_FALSE(account.HasRoom(5));
  account.Count(2, 1);
  EXPECT_TRUE(account.HasRoom(3));
  EXPECT_FALSE(account.HasRoom(4));
  account.Count(1, -1);
  EXPECT_FALSE(account.HasRoom(1));
  account.Count(-1, 0);
  EXPECT_TRUE(account.HasRoom(1));
}

TEST(Account, BoundsTheRate) {
  Account account;
  account.SetQuota({.requests_per_second = 10});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(account.Take(0), 0) << i;
  EXPECT_EQ(account.Take(0), kSecond / 10);
  EXPECT_EQ(account.Take(kSecond / 10), 0);
  EXPECT_GT(account.Take(kSecond / 10), 0);
  EXPECT_EQ(account.Take(10 * kSecond), 0);
}

TEST(Account, ManyThreadsTogetherHaveOneRate) {
  constexpr uint32_t kRate = 1'000'000;
  Account account;
  account.SetQuota({.requests_per_second = kRate});
  std::atomic<uint32_t> taken = 0;
  const auto take = [&] {
    while (account.Take(0) == 0) ++taken;
  };
  std::thread other(take);
  take();
  other.join();
  EXPECT_EQ(taken, kRate);
}

TEST(Accounts, AreSharedByNameAndForgottenWhenIdle) {
  Accounts accounts;
  const Quota quota{.sessions = 1};
  const auto a = accounts.Of("a", quota, 0);
  EXPECT_EQ(accounts.Of("a", {.sessions = 7}, 0), a);
  EXPECT_EQ(a->session_limit(), 7u);
  EXPECT_NE(accounts.Of("b", quota, 0), a);
  accounts.Free("a");
  accounts.Free("nobody");
  EXPECT_EQ(a->session_limit(), 0u);
  const auto busy = accounts.Of("busy", quota, 0);
  busy->Count(1, 0);
  for (int i = 0; i < 1000; ++i) accounts.Of("n" + std::to_string(i), quota, 0);
  EXPECT_LT(accounts.size(), 200u);
  EXPECT_EQ(accounts.Of("a", quota, 0), a);
  EXPECT_EQ(accounts.Of("busy", quota, 0), busy);
  // The account is not at hand, but waits for something.
  accounts.Of("waits", quota, 0)->Count(0, 1);
  for (int i = 0; i < 1000; ++i) accounts.Of("m" + std::to_string(i), quota, 0);
  EXPECT_EQ(accounts.Of("waits", quota, 0)->waiters(), 1);
}

TEST(Account, IsIdleWhenNothingIsLeft) {
  Account account;
  EXPECT_TRUE(account.IsIdle(0));
  account.SetQuota({.requests_per_second = 1});
  EXPECT_EQ(account.Take(0), 0);
  EXPECT_FALSE(account.IsIdle(0));
  EXPECT_TRUE(account.IsIdle(kSecond));
  EXPECT_TRUE(account.OpenSession());
  EXPECT_FALSE(account.IsIdle(kSecond));
  account.CloseSession();
  account.Count(1, 0);
  EXPECT_FALSE(account.IsIdle(kSecond));
  account.Count(-1, 1);
  EXPECT_FALSE(account.IsIdle(kSecond));
}

TEST(Quota, TheFirstThatMatchesCounts) {
  const auto policy =
      ParsePolicy("version: 1\nlimits:\n- {who: ['uid:1'], sessions: 1}\n- {who: [authenticated], sessions: 2}\n", "p");
  ASSERT_TRUE(policy.ok()) << policy.status();
  const auto sessions = [&](std::vector<Principal> who) {
    const Quota* quota = QuotaOf(*policy, {.principals = std::move(who), .name = "", .peer = "", .token = {}});
    return quota == nullptr ? 0u : *quota->sessions;
  };
  EXPECT_EQ(sessions({{Kind::kUid, "uid:1"}}), 1u);
  EXPECT_EQ(sessions({{Kind::kUid, "uid:2"}}), 2u);
  EXPECT_EQ(sessions({}), 0u);
}

TEST(PolicyCases, SayWhichHoldAndWhichDoNot) {
  const auto policy = std::make_shared<const Policy>(
      *ParsePolicy("version: 1\nrules:\n- {name: r, who: ['k8s:shop/*'], locks: ['shop:a*'], may: [look, list]}\n"
                   "- {name: ops, who: ['token:ops'], broker: [drain]}\n",
                   "p"));
  const auto run = [&](const std::string& text) { return RunCases(policy, text, "c.yaml"); };
  const auto outcomes =
      run("- {who: 'k8s:shop/w', verb: look, lock: 'shop:ab', expect: allow, rule: r}\n"
          "- {who: 'k8s:shop/w', verb: list, lock: 'shop:ab*', expect: allow}\n"
          "- {who: 'k8s:shop/w', verb: list, lock: '*', expect: deny}\n"
          "- {who: anonymous, verb: look, lock: 'shop:ab', expect: deny}\n"
          "- {who: ['uid:1', 'token:ops'], verb: drain, expect: allow}\n"
          "- {who: 'uid:1', verb: drain, expect: allow}\n"
          "- {who: 'k8s:shop/w', verb: look, lock: 'shop:ab', expect: allow, rule: ops}\n");
  ASSERT_TRUE(outcomes.ok()) << outcomes.status();
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE((*outcomes)[i].passed) << (*outcomes)[i].text;
  EXPECT_EQ((*outcomes)[5].text, "c.yaml:6: uid:1 drain: deny (no rule allows it), expected allow");
  EXPECT_EQ((*outcomes)[6].text, "c.yaml:7: k8s:shop/w look shop:ab: allow (rule r), expected allow by rule ops");
  EXPECT_FALSE((*outcomes)[6].passed);
  for (const char* bad :
       {"a: b", "- {verb: look}", "- {who: 'uid:*', verb: look, lock: 'a:b', expect: allow}",
        "- {who: anonymous, verb: acquire, lock: 'a:b', expect: allow}",
        "- {who: anonymous, verb: look, expect: allow}", "- {who: anonymous, verb: look, lock: b, expect: allow}",
        "- {who: anonymous, verb: look, lock: 'a:{uid}', expect: allow}",
        "- {who: anonymous, verb: drain, lock: 'a:b', expect: allow}",
        "- {who: anonymous, verb: drain, expect: maybe}"}) {
    const auto outcome = run(bad);
    EXPECT_FALSE(outcome.ok()) << bad;
    EXPECT_THAT(std::string(outcome.status().message().data(), outcome.status().message().size()),
                HasSubstr("c.yaml:1:"));
  }
  EXPECT_FALSE(run(std::string((1 << 20) + 1, ' ')).ok());
}

}  // namespace
}  // namespace distlock::access
