// SPDX-License-Identifier: Apache-2.0
//
// Leases without waiters, grants and bundles: see leases_test.cc for what callers see of them.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "alone.h"
#include "core/leases.h"

namespace distlock::core {
namespace {

struct LostParts final : BundleLosses {
  void OnLeaseLost(Lease&, const std::string& cause) override { causes.push_back(cause); }
  std::vector<std::string> causes;
};

// Session 1 is open, and was promised a validity.
struct Keeper : Alone {
  Keeper() { sessions.Open({1, SessionKind::kSession}, kNever); }

  Queues queues{core, none};
  LostParts parts;
  Claims claims{core};
  PendingReleases releases{core, claims, queues};
  Sessions sessions{core, none};
  Leases leases{core, claims, sessions, parts, releases};

  Session& session() { return *sessions.Find(1); }
  // Granted just now to that request of session 1. `label`: under which the session may take it again.
  Lease& Keep(RequestId request, int owner, const std::string& label = "") {
    auto owned = std::make_unique<Lease>(leases);
    owned->name = Name("k" + std::to_string(owner));
    owned->owner = Owner(owner);
    owned->recipient = {1, request};
    owned->ttl = kT;
    owned->granted = now;
    owned->deadline = now + kT - kMargin;
    Lease& lease = leases.Begin(std::move(owned), now);
    session().leases.emplace(request, &lease);
    if (!label.empty()) {
      lease.reentry = std::make_unique<Reentry>(Reentry{.label = label, .want = {}, .others = {}});
      session().reentrant[{lease.name, label}] = lease.owner;
    }
    leases.Arm(lease);
    return lease;
  }
  // Tries to renew it while the store is away.
  void PutAtRisk(Lease& lease) {
    core.store_up = false;
    leases.RenewSoon(lease);
    leases.SendRenewals();
    core.store_up = true;
  }
  // The owners of the only renewal command that leaves now; none: nothing leaves.
  std::vector<OwnerId> Renewing() {
    leases.SendRenewals();
    const auto sent = Take<StoreRenew>();
    EXPECT_LE(sent.size(), 1u);
    std::vector<OwnerId> owners;
    for (const StoreRenew& renew : sent) {
      last_renewal = renew.op;
      for (const RenewItem& item : renew.items) owners.push_back(item.owner);
    }
    return owners;
  }
  // Answers the last renewal command.
  void Answer(decltype(StoreReply::outcome) outcome) {
    const std::optional<Op> sent = core.TakeOp(last_renewal);
    StoreReply reply{last_renewal, std::move(outcome)};
    leases.OnReply(*sent, last_renewal, reply);
  }
  // To which requests events of this kind went.
  template <typename T>
  std::vector<RequestId> Told() {
    std::vector<RequestId> requests;
    for (const Notify& note : Take<Notify>()) {
      if (std::holds_alternative<T>(note.event)) requests.push_back(note.request);
    }
    return requests;
  }
  OpId last_renewal = 0;
};

TEST(LeaseRecords, NothingIsLeftOfAForgottenOne) {
  Keeper t;
  Lease& lease = t.Keep(7, 1, "label");
  t.sessions.Reacquire(t.session(), lease, 8, {});
  t.PutAtRisk(lease);
  t.leases.RenewSoon(lease);
  t.Take<Notify>();
  t.leases.Forget(lease);
  EXPECT_EQ(t.claims.LeaseOf(Owner(1)), nullptr);
  EXPECT_TRUE(t.session().leases.empty());
  EXPECT_TRUE(t.session().reentrant.empty());
  EXPECT_EQ(t.core.timers.size(), 1u) << "the session's own";
  EXPECT_TRUE(t.Renewing().empty());
  t.leases.RenewAtRisk();
  EXPECT_TRUE(t.Renewing().empty());
  EXPECT_TRUE(t.Take<Notify>().empty());
  EXPECT_EQ(t.claims.releases(), 0u);
}

TEST(LeaseRecords, OnlyThoseAtRiskAreRenewedTogetherInOrderOfCreation) {
  Keeper t;
  Lease& first = t.Keep(1, 1);
  t.Keep(2, 2);
  Lease& third = t.Keep(3, 3);
  t.PutAtRisk(third);
  t.PutAtRisk(first);
  t.leases.RenewAtRisk();
  EXPECT_EQ(t.Renewing(), (std::vector{Owner(1), Owner(3)}));
  t.Answer(RenewDoneBatch{{RenewResult::kRenewed, RenewResult::kRenewed}});
  t.leases.RenewAtRisk();
  EXPECT_TRUE(t.Renewing().empty());
}

TEST(LeaseRecords, TheEarliestOfItsEndsAndItsRenewalIsItsDeadline) {
  Keeper t;
  Lease& lease = t.Keep(1, 1);
  EXPECT_EQ(lease.at, lease.next_renew);
  lease.hold_until = lease.next_renew - seconds(1);
  t.leases.Arm(lease);
  EXPECT_EQ(lease.at, lease.hold_until);
  lease.deadline = lease.hold_until - seconds(1);
  t.leases.Arm(lease);
  EXPECT_EQ(lease.at, lease.deadline);
  lease.ending = true;
  lease.free_at = lease.deadline + seconds(1);
  t.leases.Arm(lease);
  EXPECT_EQ(lease.at, lease.deadline);
  lease.free_at = lease.deadline - seconds(1);
  t.leases.Arm(lease);
  EXPECT_EQ(lease.at, lease.free_at);
}

TEST(LeaseRecords, ATakenOneIsOnRecordOnceAndFreedWhenItsPromiseHasPassed) {
  Keeper t;
  Lease& lease = t.Keep(1, 1);
  lease.lock_delay = seconds(9);
  t.leases.Force(lease, "stuck");
  EXPECT_EQ(t.Told<Lost>(), std::vector<RequestId>{1});
  EXPECT_EQ(lease.at, t.now + kV);
  t.leases.Force(lease, "again");
  t.Pass(kV);
  t.leases.OnTimer(lease);
  const auto release = t.Take<StoreRelease>();
  ASSERT_EQ(release.size(), 1u);
  EXPECT_EQ(release[0].block, Duration::zero());
  const auto facts = t.Take<Fact>();
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(facts[0].lost, LostReason::kForced);
  EXPECT_EQ(facts[0].detail, "stuck");
  EXPECT_TRUE(t.Take<Notify>().empty());
}

TEST(LeaseRecords, RiskIsToldOnceAndItsEndOnce) {
  Keeper t;
  Lease& lease = t.Keep(1, 1);
  for (int i = 0; i < 2; ++i) {
    t.leases.RenewSoon(lease);
    ASSERT_EQ(t.Renewing().size(), 1u);
    t.Answer(StoreUnknown{"reset"});
  }
  EXPECT_EQ(t.Told<AtRisk>(), std::vector<RequestId>{1});
  for (int i = 0; i < 2; ++i) {
    t.leases.RenewSoon(lease);
    ASSERT_EQ(t.Renewing().size(), 1u);
    t.Answer(RenewDoneBatch{{RenewResult::kRenewed}});
  }
  EXPECT_EQ(t.Told<Renewed>(), std::vector<RequestId>{1});
}

TEST(LeaseRecords, TheFirstRequestToLeaveHandsItToTheNext) {
  Keeper t;
  Lease& lease = t.Keep(7, 1, "label");
  t.sessions.Reacquire(t.session(), lease, 8, {});
  t.sessions.Reacquire(t.session(), lease, 9, {});
  EXPECT_EQ(t.Told<Granted>(), (std::vector<RequestId>{8, 9}));
  EXPECT_EQ(Sessions::LeasesOf(t.session()), std::vector{&lease}) << "once, although three requests have it";
  EXPECT_TRUE(t.sessions.LeaveOne(lease, 7));
  EXPECT_EQ(Sessions::LeasesOf(t.session()), std::vector{&lease});
  t.sessions.TellHolder(lease, AtRisk{});
  EXPECT_EQ(t.Told<AtRisk>(), (std::vector<RequestId>{8, 9}));
  EXPECT_TRUE(t.sessions.LeaveOne(lease, 9));
  EXPECT_FALSE(t.sessions.LeaveOne(lease, 8)) << "the last one";
  EXPECT_EQ(t.session().leases.size(), 1u);
}

// No caller has been told of it, and its bundle may have more to give back.
TEST(LeaseRecords, ALostPartIsLeftToItsBundle) {
  Keeper t;
  Bundle bundle(t.none);
  Lease& lease = t.Keep(1, 1);
  lease.bundle = &bundle;
  t.leases.Force(lease, "stuck");
  t.leases.RenewSoon(lease);
  ASSERT_EQ(t.Renewing().size(), 1u);
  t.Answer(RenewDoneBatch{{RenewResult::kGone}});
  t.Pass(kT);
  t.leases.OnTimer(lease);
  EXPECT_EQ(t.parts.causes, (std::vector<std::string>{"an administrator took it: stuck", "the store no longer has it",
                                                      "could not be renewed in time: no answer from the store"}));
  EXPECT_EQ(t.claims.leases(), 1u);
  EXPECT_EQ(t.claims.releases(), 0u);
  EXPECT_TRUE(t.Take<Notify>().empty());
  EXPECT_TRUE(t.Take<Fact>().empty());
}

}  // namespace
}  // namespace distlock::core
