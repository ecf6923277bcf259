// SPDX-License-Identifier: Apache-2.0
#include "contract/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "distlock/v1/lock_service.pb.h"

namespace distlock::contract {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

struct Verdict {
  core::Acquire acquire;
  bool ok = false;
  v1::Refusal refusal;
  std::vector<std::string> fields;
};

Verdict Check(const std::function<void(v1::LockSpec&)>& change, bool detached = false) {
  v1::LockSpec spec;
  spec.set_key("k");
  change(spec);
  const Limits limits;
  Validator check(limits);
  Verdict verdict;
  verdict.acquire = check.Spec(spec, "lock", detached);
  verdict.ok = check.ok();
  if (!check.ok()) verdict.refusal = check.Refusal();
  for (const auto& problem : verdict.refusal.field_problems()) verdict.fields.push_back(problem.field());
  return verdict;
}

google::protobuf::Duration Time(int64_t s, int32_t nanos = 0) {
  google::protobuf::Duration duration;
  duration.set_seconds(s);
  duration.set_nanos(nanos);
  return duration;
}

TEST(Validate, DefaultsAreThoseOfTheContract) {
  const Verdict verdict = Check([](v1::LockSpec&) {});
  ASSERT_TRUE(verdict.ok);
  EXPECT_EQ(verdict.acquire.name, core::LockName::Encode("default", "k"));
  EXPECT_EQ(verdict.acquire.ttl, seconds(15));
  EXPECT_FALSE(verdict.acquire.max_wait.has_value());
  EXPECT_EQ(verdict.acquire.max_hold, seconds(0));
  EXPECT_EQ(verdict.acquire.lock_delay, seconds(0));
  EXPECT_EQ(verdict.acquire.on_disconnect, core::OnDisconnect::kSafe);
}

TEST(Validate, TakesEveryBound) {
  const Verdict verdict = Check([](v1::LockSpec& spec) {
    spec.set_namespace_(std::string(64, 'n'));
    spec.set_key(std::string(512, '\0'));
    spec.set_owner(std::string(256, 'o'));
    (*spec.mutable_metadata())["k"] = std::string(1023, 'v');
    *spec.mutable_ttl() = Time(3600);
    *spec.mutable_max_wait() = Time(24 * 3600);
    *spec.mutable_lock_delay() = Time(60);
    *spec.mutable_min_hold() = Time(25 * 3600);
    *spec.mutable_max_hold() = Time(1, 1);
    spec.set_policy(v1::QUEUE_POLICY_FAIR);
    spec.set_mode(v1::LOCK_MODE_EXCLUSIVE);
    spec.set_on_disconnect(v1::ON_DISCONNECT_EXPIRE);
  });
  ASSERT_TRUE(verdict.ok) << verdict.refusal.message();
  EXPECT_EQ(verdict.acquire.max_wait, core::Duration(std::chrono::hours(24)));
  EXPECT_EQ(verdict.acquire.on_disconnect, core::OnDisconnect::kExpire);
}

TEST(Validate, ALeaseIdCannotAskForMoreThanTheLimits) {
  LeaseId lease{
      .name = core::LockName::Encode("default", "k"), .owner = {1}, .ttl = std::chrono::hours(1000), .token = 7};
  Limits limits;
  limits.max_ttl = seconds(60);
  Validator check(limits);
  EXPECT_EQ(check.Lease(EncodeLeaseId(lease), "lease_id").ttl, seconds(60));
  lease.ttl = seconds(59);
  EXPECT_EQ(check.Lease(EncodeLeaseId(lease), "lease_id").ttl, seconds(59));
  lease.ttl = std::chrono::milliseconds(1);
  EXPECT_EQ(check.Lease(EncodeLeaseId(lease), "lease_id").ttl, seconds(1)) << "no grant has so short a one";
  EXPECT_TRUE(check.ok());
}

TEST(Validate, ATtlIsShorterOnceTheStoreIsSeenToBeReplicated) {
  const auto seen = std::make_shared<std::atomic<bool>>(false);
  Limits limits;
  limits.default_ttl = seconds(40);
  limits.store_is_replicated = seen;
  v1::LockSpec spec;
  spec.set_key("k");
  for (const bool is_replicated : {false, true}) {
    *seen = is_replicated;
    spec.clear_ttl();
    EXPECT_EQ(Validator(limits).Spec(spec, "lock", true).ttl, seconds(is_replicated ? 30 : 40)) << "unless asked";
    *spec.mutable_ttl() = Time(31);
    Validator check(limits);
    check.Spec(spec, "lock", true);
    EXPECT_EQ(check.ok(), !is_replicated);
  }
}

// The ttl is cut to max_hold, and would be shorter than the shortest ttl.
TEST(Validate, MaxHoldOfADetachedLeaseIsNoShorterThanATtl) {
  Limits limits;
  v1::LockSpec spec;
  spec.set_key("k");
  for (const auto& [max_hold, ok] : {std::pair{Time(0), true}, {Time(0, 999'999'999), false}, {Time(1), true}}) {
    *spec.mutable_max_hold() = max_hold;
    Validator check(limits);
    check.Spec(spec, "lock", /*detached=*/true);
    EXPECT_EQ(check.ok(), ok) << max_hold.ShortDebugString();
    if (!ok) {
      EXPECT_THAT(check.Refusal().message(), HasSubstr("lock.max_hold"));
    }
  }
}

TEST(Validate, MaxWaitOfZeroIsOneTry) {
  const Verdict verdict = Check([](v1::LockSpec& spec) { spec.mutable_max_wait(); });
  ASSERT_TRUE(verdict.ok);
  EXPECT_EQ(verdict.acquire.max_wait, core::Duration::zero());
}

struct BadField {
  const char* field;
  std::function<void(v1::LockSpec&)> change;
};

void Permit(v1::LockSpec& spec, int32_t permits, int32_t limit) {
  spec.set_mode(v1::LOCK_MODE_PERMIT);
  spec.set_permits(permits);
  spec.set_limit(limit);
}

TEST(Validate, NamesTheBadField) {
  const std::vector<BadField> table = {
      {"lock.key", [](v1::LockSpec& s) { s.clear_key(); }},
      {"lock.key", [](v1::LockSpec& s) { s.set_key(std::string(513, 'k')); }},
      {"lock.key", [](v1::LockSpec& s) { s.set_key("\xff"); }},
      {"lock.key", [](v1::LockSpec& s) { s.set_key("\xed\xa0\x80"); }},
      {"lock.key", [](v1::LockSpec& s) { s.set_key("\xc0\xaf"); }},
      {"lock.namespace", [](v1::LockSpec& s) { s.set_namespace_(std::string(65, 'n')); }},
      {"lock.namespace", [](v1::LockSpec& s) { s.set_namespace_("a\xc3"); }},
      {"lock.owner", [](v1::LockSpec& s) { s.set_owner(std::string(257, 'o')); }},
      {"lock.owner", [](v1::LockSpec& s) { s.set_owner("\x80"); }},
      {"lock.metadata", [](v1::LockSpec& s) { (*s.mutable_metadata())["k"] = std::string(1024, 'v'); }},
      {"lock.metadata", [](v1::LockSpec& s) { (*s.mutable_metadata())["\xfe"] = "v"; }},
      {"lock.ttl", [](v1::LockSpec& s) { *s.mutable_ttl() = Time(0, 999'999'999); }},
      {"lock.ttl", [](v1::LockSpec& s) { *s.mutable_ttl() = Time(3601); }},
      {"lock.ttl", [](v1::LockSpec& s) { *s.mutable_ttl() = Time(-1); }},
      {"lock.ttl", [](v1::LockSpec& s) { *s.mutable_ttl() = Time(INT64_MIN); }},
      {"lock.ttl", [](v1::LockSpec& s) { *s.mutable_ttl() = Time(315'576'000'000); }},
      {"lock.ttl", [](v1::LockSpec& s) { *s.mutable_ttl() = Time(2, 1'000'000'000); }},
      {"lock.ttl", [](v1::LockSpec& s) { *s.mutable_ttl() = Time(2, -1); }},
      {"lock.max_wait", [](v1::LockSpec& s) { *s.mutable_max_wait() = Time(0, -1); }},
      {"lock.max_wait", [](v1::LockSpec& s) { *s.mutable_max_wait() = Time(24 * 3600, 1); }},
      {"lock.max_wait", [](v1::LockSpec& s) { *s.mutable_max_wait() = Time(INT64_MAX, INT32_MAX); }},
      {"lock.max_hold", [](v1::LockSpec& s) { *s.mutable_max_hold() = Time(-5); }},
      {"lock.lock_delay", [](v1::LockSpec& s) { *s.mutable_lock_delay() = Time(61); }},
      {"lock.min_hold", [](v1::LockSpec& s) { *s.mutable_min_hold() = Time(25 * 3600, 1); }},
      {"lock.min_hold", [](v1::LockSpec& s) { *s.mutable_min_hold() = Time(-1); }},
      {"lock.min_hold",
       [](v1::LockSpec& s) {
         *s.mutable_min_hold() = Time(1);
         s.set_mode(v1::LOCK_MODE_SHARED);
       }},
      {"lock.tell_wanted",
       [](v1::LockSpec& s) {
         *s.mutable_min_hold() = Time(1);
         s.set_tell_wanted(true);
       }},
      {"lock.permits", [](v1::LockSpec& s) { s.set_permits(1); }},
      {"lock.limit", [](v1::LockSpec& s) { s.set_limit(2); }},
      {"lock.permits", [](v1::LockSpec& s) { s.set_permits(-1); }},
      {"lock.limit", [](v1::LockSpec& s) { s.set_limit(-1); }},
      {"lock.permits", [](v1::LockSpec& s) { Permit(s, -1, 3); }},
      {"lock.limit", [](v1::LockSpec& s) { Permit(s, 1, -3); }},
      {"lock.limit", [](v1::LockSpec& s) { Permit(s, 0, 0); }},
      {"lock.namespace", [](v1::LockSpec& s) { s.set_namespace_("-"); }},
      {"lock.mode", [](v1::LockSpec& s) { s.set_mode(static_cast<v1::LockMode>(77)); }},
      {"lock.policy", [](v1::LockSpec& s) { s.set_policy(static_cast<v1::QueuePolicy>(77)); }},
      {"lock.on_disconnect", [](v1::LockSpec& s) { s.set_on_disconnect(static_cast<v1::OnDisconnect>(77)); }},
  };
  for (const BadField& row : table) {
    const Verdict verdict = Check(row.change);
    EXPECT_FALSE(verdict.ok) << row.field;
    EXPECT_EQ(verdict.refusal.reason(), v1::REFUSAL_REASON_INVALID_ARGUMENT) << row.field;
    EXPECT_THAT(verdict.fields, ElementsAre(row.field));
    EXPECT_THAT(verdict.refusal.message(), HasSubstr(row.field));
  }
}

TEST(Validate, AllBadFieldsAtOnce) {
  const Verdict verdict = Check([](v1::LockSpec& spec) {
    spec.set_key("");
    spec.set_owner(std::string(300, 'o'));
    *spec.mutable_ttl() = Time(-1);
    *spec.mutable_lock_delay() = Time(100);
    spec.set_permits(3);
  });
  EXPECT_THAT(verdict.fields,
              testing::UnorderedElementsAre("lock.key", "lock.owner", "lock.ttl", "lock.lock_delay", "lock.permits"));
  EXPECT_THAT(verdict.refusal.message(), HasSubstr("and 2 more"));
}

TEST(Validate, WhoTakesALockAgainNeedsAName) {
  const Verdict verdict = Check([](v1::LockSpec& spec) {
    spec.clear_owner();
    spec.set_reentrant(true);
  });
  EXPECT_THAT(verdict.fields, testing::ElementsAre("lock.owner"));
}

TEST(Validate, ADetachedLeaseIsNotTakenAgain) {
  const auto again = [](v1::LockSpec& spec) {
    spec.set_owner("me");
    spec.set_reentrant(true);
  };
  EXPECT_TRUE(Check(again, /*detached=*/false).ok);
  EXPECT_THAT(Check(again, /*detached=*/true).fields, testing::ElementsAre("lock.reentrant"));
}

TEST(Validate, LocksOfOneRequest) {
  const Limits limits;
  const auto fields = [&](const std::function<void(v1::AcquireLocks&)>& change, int locks = 2) {
    v1::AcquireLocks request;
    for (int i = 0; i < locks; ++i) request.add_locks()->set_key(std::to_string(i));
    change(request);
    Validator check(limits);
    check.Locks(request.locks(), "locks", /*detached=*/false);
    std::vector<std::string> bad;
    const v1::Refusal refusal = check.Refusal();
    for (const auto& problem : refusal.field_problems()) bad.push_back(problem.field());
    return bad;
  };
  const auto nothing = [](v1::AcquireLocks&) {};
  EXPECT_THAT(fields(nothing, 1), ElementsAre());
  EXPECT_THAT(fields(nothing, core::kMaxTogether), ElementsAre());
  EXPECT_THAT(fields(nothing, 0), ElementsAre("locks"));
  EXPECT_THAT(fields(nothing, core::kMaxTogether + 1), ElementsAre("locks"));
  EXPECT_THAT(fields([](auto& all) { all.mutable_locks(1)->set_key("0"); }), ElementsAre("locks[1].key"));
  EXPECT_THAT(fields([](auto& all) { all.mutable_locks(1)->mutable_max_wait(); }), ElementsAre("locks[1].max_wait"));
  const auto reentrant = [](v1::AcquireLocks& all) {
    all.mutable_locks(0)->set_owner("me");
    all.mutable_locks(0)->set_reentrant(true);
  };
  EXPECT_THAT(fields([](auto& all) { *all.mutable_locks(1)->mutable_min_hold() = Time(1); }),
              ElementsAre("locks[1].min_hold"));
  EXPECT_THAT(fields(reentrant), ElementsAre("locks[0].reentrant"));
  EXPECT_THAT(fields(reentrant, 1), ElementsAre());
}

TEST(Validate, TurnsModesAndPoliciesIntoWhatIsWanted) {
  const auto want = [](v1::LockMode mode, v1::QueuePolicy policy, int32_t permits = 0, int32_t limit = 0) {
    v1::LockSpec spec;
    spec.set_key("k");
    spec.set_mode(mode);
    spec.set_policy(policy);
    spec.set_permits(permits);
    spec.set_limit(limit);
    const Limits limits;
    Validator check(limits);
    const core::Acquire acquire = check.Spec(spec, "lock", true);
    EXPECT_TRUE(check.ok());
    return acquire.want;
  };
  using core::Mode;
  using core::Policy;
  EXPECT_EQ(want(v1::LOCK_MODE_UNSPECIFIED, v1::QUEUE_POLICY_UNSPECIFIED), (core::Want{}));
  EXPECT_EQ(want(v1::LOCK_MODE_SHARED, v1::QUEUE_POLICY_WRITER_PREFERRING),
            (core::Want{Mode::kShared, Policy::kWriterPreferring}));
  EXPECT_EQ(want(v1::LOCK_MODE_EXCLUSIVE, v1::QUEUE_POLICY_READER_PREFERRING),
            (core::Want{Mode::kExclusive, Policy::kReaderPreferring}));
  EXPECT_EQ(want(v1::LOCK_MODE_PERMIT, v1::QUEUE_POLICY_ADAPTIVE, 2, 5),
            (core::Want{Mode::kPermit, Policy::kAdaptive, 2, 5}));
  EXPECT_EQ(want(v1::LOCK_MODE_PERMIT, v1::QUEUE_POLICY_FAIR, 0, 5), (core::Want{Mode::kPermit, Policy::kFair, 1, 5}));
}

TEST(Validate, APermitNeedsALimitFirst) {
  const Verdict verdict = Check([](v1::LockSpec& spec) {
    spec.set_mode(v1::LOCK_MODE_PERMIT);
    spec.set_permits(4);
    spec.set_limit(3);
  });
  EXPECT_EQ(verdict.refusal.reason(), v1::REFUSAL_REASON_INVALID_ARGUMENT);
  EXPECT_THAT(verdict.fields, ElementsAre("lock.limit"));
}

TEST(Validate, OnDisconnectMeansNothingToADetachedLease) {
  EXPECT_TRUE(Check([](v1::LockSpec& s) { s.set_on_disconnect(v1::ON_DISCONNECT_SAFE); }, true).ok);
  EXPECT_THAT(Check([](v1::LockSpec& s) { s.set_on_disconnect(v1::ON_DISCONNECT_RELEASE); }, true).fields,
              ElementsAre("lock.on_disconnect"));
  EXPECT_THAT(Check([](v1::LockSpec& s) { s.set_resume(true); }, true).fields, ElementsAre("lock.resume"));
  EXPECT_TRUE(Check([](v1::LockSpec& s) { s.set_resume(true); }, false).acquire.resume);
}

TEST(Validate, RequestIdsLeaseIdsAndPages) {
  const Limits limits;
  const auto problems = [&](const std::function<void(Validator&)>& ask) {
    Validator check(limits);
    ask(check);
    return check.ok() ? 0 : check.Refusal().field_problems_size();
  };
  EXPECT_EQ(problems([](Validator& v) { v.RequestId(""); }), 0);
  EXPECT_EQ(problems([](Validator& v) { v.RequestId(std::string(16, 'r')); }), 0);
  EXPECT_EQ(problems([](Validator& v) { v.RequestId(std::string(64, 'r')); }), 0);
  EXPECT_EQ(problems([](Validator& v) { v.RequestId(std::string(15, 'r')); }), 1);
  EXPECT_EQ(problems([](Validator& v) { v.RequestId(std::string(65, 'r')); }), 1);
  EXPECT_EQ(problems([](Validator& v) { v.Lease("", "lease_id"); }), 1);
  EXPECT_EQ(problems([](Validator& v) { v.Lease("nonsense", "lease_id"); }), 1);
  EXPECT_EQ(problems([](Validator& v) { EXPECT_EQ(v.Page(0, "p"), 100u); }), 0);
  EXPECT_EQ(problems([](Validator& v) { EXPECT_EQ(v.Page(1000, "p"), 1000u); }), 0);
  EXPECT_EQ(problems([](Validator& v) { v.Page(1001, "p"); }), 1);
  EXPECT_EQ(problems([](Validator& v) { v.Page(-1, "p"); }), 1);
  EXPECT_EQ(problems([](Validator& v) { EXPECT_EQ(v.Count(0, 5, "p"), 0u); }), 0);
  EXPECT_EQ(problems([](Validator& v) { EXPECT_EQ(v.Count(5, 5, "p"), 5u); }), 0);
  EXPECT_EQ(problems([](Validator& v) { v.Count(6, 5, "p"); }), 1);
}

TEST(Validate, ASearchIsOfOneNamespaceOrOfAll) {
  const Limits limits;
  Validator check(limits);
  EXPECT_EQ(check.Search("", "a{b").escaped_namespace, "default");
  EXPECT_EQ(check.Search("n/m", "a{b").escaped_namespace, "n%2Fm");
  EXPECT_EQ(check.Search("", "a{b").escaped_prefix, "a%7Bb");
  EXPECT_EQ(check.Search("-", "").escaped_namespace, "");
  EXPECT_TRUE(check.ok());
  check.Search("-", "p");
  EXPECT_FALSE(check.ok());
}

}  // namespace
}  // namespace distlock::contract
