// SPDX-License-Identifier: Apache-2.0
//
// Adoptions: a session takes over a lease of another stream.
#include "table.h"

namespace distlock::core {
namespace {

using AdoptResult = AdoptDone::Result;

constexpr uint64_t kToken = 77;

// Session 1 takes over owner 5's lease of "a" as owner 6.
Adopt Taking(RequestId request = 7) {
  return {.session = 1,
          .request = request,
          .name = Name("a"),
          .from = Owner(5),
          .token = kToken,
          .owner = Owner(6),
          .ttl = kT,
          .info = "info"};
}

AdoptDone Adopted(const Table& t, Duration held_for = seconds(20)) {
  const auto us = std::chrono::floor<microseconds>(held_for).count();
  return {.result = AdoptResult::kAdopted,
          .since = {t.StoreNow().us - us},
          .held_for = held_for,
          .ttl = kT,
          .lock_delay = seconds(4)};
}

// A table at which session 1 has adopted the lease.
struct Taken : OneSession {
  explicit Taken(Adopt adopt = Taking()) {
    Do(adopt);
    Reply(Take<StoreAdopt>().op, Adopted(*this));
    granted = Event<Granted>(1, adopt.request);
  }
  Granted granted;
};

TEST(Adoptions, GiveTheSameGrantToThisSession) {
  OneSession t;
  t.Do(Taking());
  const auto ask = t.Take<StoreAdopt>();
  EXPECT_EQ(ask.name, Name("a"));
  EXPECT_EQ(ask.from, Owner(5));
  EXPECT_EQ(ask.token, kToken);
  EXPECT_EQ(ask.owner, Owner(6));
  EXPECT_EQ(ask.info, "info");
  EXPECT_GT(ask.run_before, t.now);
  EXPECT_LT(ask.run_before, t.now + kT);
  EXPECT_EQ(t.Events<Granted>(), 0u);
  t.Pass(milliseconds(100));
  t.Reply(ask.op, Adopted(t));
  const auto granted = t.Event<Granted>(1, 7);
  EXPECT_EQ(granted.owner, Owner(6));
  EXPECT_EQ(granted.token, kToken);
  EXPECT_EQ(granted.ttl, kT);
  EXPECT_EQ(granted.waited, Duration(0));
  EXPECT_EQ(granted.hold_count, 1u);
  EXPECT_EQ(granted.valid_for, Told(kV)) << "by this session's anchors";
  EXPECT_EQ(t.broker.Stats().leases, 1u);
  for (uint64_t seq = 1; t.Count<StoreRenew>() == 0 && seq < 15; ++seq) {
    t.Do(Heartbeat{.session = 1, .seq = seq});
    t.Pass(seconds(1));
  }
  EXPECT_EQ(t.Take<StoreRenew>().items.at(0).owner, Owner(6)) << "renewed here from now on";
}

TEST(Adoptions, PromiseNoMoreThanTheTtlThatTheCommandBegan) {
  BrokerConfig config;
  config.validity = hours(1);
  OneSession t(SessionKind::kSession, config);
  t.Do(Taking());
  const auto ask = t.Take<StoreAdopt>();
  t.Pass(seconds(2));
  t.Reply(ask.op, Adopted(t));
  EXPECT_EQ(t.Event<Granted>(1, 7).valid_for, Told(kT - kMargin)) << "counted from the sending";
}

TEST(Adoptions, WhatIsGoneOrHeldOtherwiseIsRefused) {
  OneSession t;
  t.Do(Taking());
  t.Reply(t.Take<StoreAdopt>().op, AdoptDone{});
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kNotHolder);
  t.Do(Taking());
  t.Reply(t.Take<StoreAdopt>().op, AdoptDone{.result = AdoptResult::kAnotherMode, .mode = Mode::kShared});
  const auto refused = t.Event<Refused>(1, 7);
  EXPECT_EQ(refused.reason, RefusalReason::kNotSupported);
  EXPECT_NE(refused.cause.find("SHARED"), std::string::npos);
  t.Do(Taking());
  t.Reply(t.Take<StoreAdopt>().op, AdoptDone{.result = AdoptResult::kLater});
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kCancelled) << "a later try has taken it";
  EXPECT_EQ(t.broker.Stats().leases, 0u);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
}

TEST(Adoptions, AnUnknownOutcomeIsAskedAgainAsTheSameTry) {
  OneSession t;
  t.Do(Taking());
  t.Reply(t.Take<StoreAdopt>().op, StoreUnknown{"reset"});
  EXPECT_EQ(t.Events<Granted>() + t.Events<Refused>(), 0u);
  t.Pass(milliseconds(100));
  const auto again = t.Take<StoreAdopt>();
  EXPECT_EQ(again.owner, Owner(6));
  t.Reply(again.op, Adopted(t));
  t.Event<Granted>(1, 7);
}

TEST(Adoptions, AnAnswerThatComesTooLateIsAskedForAgain) {
  BrokerConfig config;
  config.validity = hours(1);
  config.store_timeout = hours(1);
  OneSession t(SessionKind::kSession, config);
  t.Do(Taking());
  const auto late = t.Take<StoreAdopt>();
  t.Pass(kT);
  while (t.Count<StoreAdopt>() > 0) t.Take<StoreAdopt>();
  t.Reply(late.op, Adopted(t));
  EXPECT_EQ(t.Events<Granted>(), 0u);
  t.Reply(t.Take<StoreAdopt>().op, Adopted(t));
  t.Event<Granted>(1, 7);
}

TEST(Adoptions, WithoutTheStoreItIsSaidThatItIsNotKnown) {
  OneSession t;
  t.Do(StoreDown{"gone"});
  t.Do(Taking());
  for (int i = 1; i <= 6; ++i) {
    t.Pass(seconds(1));
    t.Do(Heartbeat{.session = 1, .seq = static_cast<uint64_t>(i)});
  }
  const auto refused = t.Event<Refused>(1, 7);
  EXPECT_EQ(refused.reason, RefusalReason::kStoreUnavailable);
  EXPECT_NE(refused.cause.find("not known"), std::string::npos);
  t.StoreComesUp();
  EXPECT_EQ(t.Count<StoreAdopt>(), 0u);
}

TEST(Adoptions, AStoreThatComesBackIsAskedAtOnce) {
  OneSession t;
  t.Do(StoreDown{"gone"});
  t.Do(Taking());
  EXPECT_EQ(t.Count<StoreAdopt>(), 0u);
  t.StoreComesUp();
  EXPECT_EQ(t.Count<StoreAdopt>(), 1u);
}

// The former stream may be promised more until its broker hears of the adoption, at the latest when the ttl that it
// last began ends.
TEST(Adoptions, ABrokenStreamFreesNothingThatTheFormerMayBelieveIn) {
  Taken t;
  t.Pass(seconds(1));
  t.Do(StreamEnded{1});
  t.Pass(kT * 2);
  EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>(), 0u) << "the ttl ends it";
  EXPECT_EQ(t.broker.Stats().leases, 0u);
}

TEST(Adoptions, ATtlLaterABrokenStreamFreesAsEver) {
  Taken t;
  for (int second = 0; second <= 16; ++second) {
    t.Do(Heartbeat{.session = 1, .seq = static_cast<uint64_t>(second + 1)});
    t.Pass(seconds(1));
    while (t.Count<StoreRenew>() > 0) t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kRenewed}, {}, ""});
  }
  t.Do(StreamEnded{1});
  t.Pass(kV);
  EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(6));
}

TEST(Adoptions, AReleaseOrGoodbyeFreesAtOnce) {
  Taken released;
  released.Do(Release{.session = 1, .request = 8, .acquire = 7, .name = {}});
  EXPECT_EQ(released.Take<StoreRelease>().owner, Owner(6));
  Taken left;
  left.Do(Goodbye{1});
  EXPECT_EQ(left.Take<StoreRelease>().owner, Owner(6));
}

TEST(Adoptions, WhoHasGoneIsNotAnsweredAndNothingIsFreed) {
  OneSession t;
  t.Do(Taking());
  const auto ask = t.Take<StoreAdopt>();
  t.Do(StreamEnded{1});
  t.Reply(ask.op, Adopted(t));
  t.Pass(kT * 2);
  EXPECT_EQ(t.broker.Stats().leases, 0u);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "a repeat through another broker may have it";
}

TEST(Adoptions, OneThatIsCancelledIsReleasedWhenItIsKnownToBeOurs) {
  OneSession t;
  t.Do(Taking());
  t.Do(Cancel{.session = 1, .acquire = 7});
  t.Reply(t.Take<StoreAdopt>().op, Adopted(t));
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kCancelled);
  const auto release = t.Take<StoreRelease>();
  EXPECT_EQ(release.owner, Owner(6));
  EXPECT_EQ(release.token, kToken);
  EXPECT_EQ(t.broker.Stats().leases, 0u);
}

TEST(Adoptions, AHoldThatIsCancelledLeavesTheOthers) {
  for (const RequestId given_up : {7, 8, 9}) {
    OneSession t;
    Adopt adopt = Taking();
    adopt.reentry = "me";
    adopt.hold_count = 3;
    t.Do(adopt);
    t.Do(Cancel{.session = 1, .acquire = given_up});
    t.Reply(t.Take<StoreAdopt>().op, Adopted(t));
    EXPECT_EQ(t.Event<Refused>(1, given_up).reason, RefusalReason::kCancelled);
    EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "two holds are left";
    uint32_t holds = 0;
    for (const RequestId hold : {7, 8, 9}) {
      if (hold == given_up) continue;
      EXPECT_EQ(t.Event<Granted>(1, hold).hold_count, ++holds);
      t.Do(Release{.session = 1, .request = 20 + hold, .acquire = hold, .name = {}});
    }
    EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(6)) << "with the last of them";
  }
}

TEST(Adoptions, MaxHoldCountsFromTheFirstGrant) {
  Adopt adopt = Taking();
  adopt.max_hold = seconds(22);
  Taken t(adopt);
  EXPECT_EQ(t.granted.valid_for, Told(seconds(2))) << "20 s of 22 have passed";
  t.Pass(seconds(2));
  EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kMaxHold);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "its client may believe by the former promise";
  t.Do(Release{.session = 1, .request = 20, .acquire = 7, .name = {}});
  EXPECT_EQ(t.Event<Released>(1, 20).outcome, ReleaseOutcome::kAlreadyGone);
  EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(6)) << "it believes no more";

  OneSession late;
  adopt.max_hold = seconds(20);
  late.Do(adopt);
  late.Reply(late.Take<StoreAdopt>().op, Adopted(late));
  EXPECT_EQ(late.Event<Refused>(1, 7).reason, RefusalReason::kNotHolder);
  EXPECT_EQ(late.Count<StoreRelease>(), 0u) << "the former stream's max_hold began a little later";
}

TEST(Adoptions, ALeaseOfThisBrokerChangesItsStream) {
  OneSession t;
  t.Open(2);
  const auto granted = t.Hold(2, 9, "a", 5);
  Adopt adopt = Taking();
  adopt.token = granted.token;
  t.Do(adopt);
  t.Reply(t.Take<StoreAdopt>().op, Adopted(t));
  EXPECT_EQ(t.Event<Lost>(2, 9).reason, LostReason::kMoved);
  EXPECT_EQ(t.Event<Granted>(1, 7).token, granted.token);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
  t.Do(StreamEnded{2});
  t.Pass(kV);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
}

TEST(Adoptions, ALeaseWhoseStreamHasBrokenHereIsAdopted) {
  OneSession t;
  t.Open(2);
  const auto granted = t.Hold(2, 9, "a", 5);
  t.Do(StreamEnded{2});
  t.Pass(seconds(1));
  Adopt adopt = Taking();
  adopt.token = granted.token;
  t.Do(adopt);
  t.Reply(t.Take<StoreAdopt>().op, Adopted(t));
  t.Event<Granted>(1, 7);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
  t.Do(Heartbeat{.session = 1, .seq = 1});
  t.Pass(seconds(2));
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "what was planned when the stream broke is off";
}

// It changes what is shown of the lease, and nothing else.
TEST(Adoptions, ASessionAdoptsItsOwnLease) {
  OneSession t;
  const auto granted = t.Hold(1, 9, "a", 5);
  Adopt adopt = Taking();
  adopt.token = granted.token;
  t.Do(adopt);
  t.Reply(t.Take<StoreAdopt>().op, Adopted(t));
  EXPECT_EQ(t.Event<Lost>(1, 9).reason, LostReason::kMoved);
  EXPECT_EQ(t.Event<Granted>(1, 7).token, granted.token);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
  t.Do(StreamEnded{1});
  t.Pass(kV);
  EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(6)) << "no other stream's promise is waited for";
}

TEST(Adoptions, TheStoresMaxHoldCountsWhateverTheClientSays) {
  for (const Duration said : {Duration(0), Duration(seconds(600))}) {
    OneSession t;
    Adopt adopt = Taking();
    adopt.max_hold = said;
    t.Do(adopt);
    AdoptDone done = Adopted(t, seconds(20));
    done.max_hold = seconds(22);
    t.Reply(t.Take<StoreAdopt>().op, done);
    EXPECT_LE(t.Event<Granted>(1, 7).valid_for, seconds(2));
    t.Pass(seconds(2));
    EXPECT_EQ(t.Event<Lost>(1, 7).reason, LostReason::kMaxHold);
  }
}

TEST(Adoptions, ALeaseOnItsWayBackIsNotAdopted) {
  OneSession t;
  const auto granted = t.Hold(1, 9, "a", 5);
  Adopt adopt = Taking();
  adopt.token = granted.token;
  t.Do(Release{.session = 1, .request = 10, .acquire = 9, .name = {}});
  t.Do(adopt);
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kNotHolder);
  EXPECT_EQ(t.Count<StoreAdopt>(), 0u);
}

TEST(Adoptions, TheFormerBrokerHearsAtItsNextRenewal) {
  OneSession t;
  const auto granted = t.Hold(1, 9, "a", 5);
  for (uint64_t seq = 1; t.Count<StoreRenew>() == 0 && seq < 15; ++seq) {
    t.Do(Heartbeat{.session = 1, .seq = seq});
    t.Pass(seconds(1));
  }
  t.Reply(t.Take<StoreRenew>().op, RenewDoneBatch{{RenewResult::kMoved}, {}, ""});
  EXPECT_EQ(t.Event<Lost>(1, 9).reason, LostReason::kMoved);
  EXPECT_EQ(t.broker.Stats().leases, 0u);
  t.Pass(kV);
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "it is held elsewhere";
}

TEST(Adoptions, AReentrantLeaseKeepsItsHolds) {
  Adopt adopt = Taking();
  adopt.reentry = "me";
  adopt.hold_count = 3;
  Taken t(adopt);
  EXPECT_EQ(t.granted.hold_count, 1u);
  EXPECT_EQ(t.Event<Granted>(1, 8).hold_count, 2u);
  EXPECT_EQ(t.Event<Granted>(1, 9).hold_count, 3u);
  for (const RequestId hold : {7, 9}) {
    t.Do(Release{.session = 1, .request = 20 + hold, .acquire = hold, .name = {}});
    EXPECT_EQ(t.Event<Released>(1, 20 + hold).outcome, ReleaseOutcome::kStillHeld);
  }
  t.Do(Release{.session = 1, .request = 20, .acquire = 8, .name = {}});
  EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(6));
  t.Do(adopt);
  t.Do(StreamEnded{1});
}

TEST(Adoptions, ADrainingBrokerAdoptsNothing) {
  OneSession t;
  t.Do(Drain{seconds(30)});
  t.Do(Taking());
  EXPECT_EQ(t.Event<Refused>(1, 7).reason, RefusalReason::kDraining);
}

TEST(Adoptions, CountAmongTheLeasesThatASessionMayHave) {
  BrokerConfig config;
  config.max_leases_per_session = 2;
  OneSession t(SessionKind::kSession, config);
  Adopt adopt = Taking();
  adopt.reentry = "me";
  adopt.hold_count = 3;
  t.Do(adopt);
  for (const RequestId request : {7, 8, 9}) {
    EXPECT_EQ(t.Event<Refused>(1, request).reason, RefusalReason::kQuotaExceeded);
  }
}

}  // namespace
}  // namespace distlock::core
