// SPDX-License-Identifier: Apache-2.0
//
// A process that held locks has ended, and that is certain: what waits for the end of its belief waits no more.
#include <vector>

#include "table.h"

namespace distlock::core {
namespace {

uint32_t Freed(const Table& t) {
  uint32_t freed = 0;
  for (const Fact& fact : t.facts) freed += fact.kind == FactKind::kHolderDied ? fact.count : 0;
  return freed;
}

TEST(HolderDied, FreesAtOnceInWhateverOrderAndHoweverOftenItComes) {
  const std::vector<std::vector<Input>> orders = {{StreamEnded{1}, HolderDied{1, "p"}},
                                                  {HolderDied{1, "p"}, StreamEnded{1}},
                                                  {HolderDied{1, "p"}},
                                                  {HolderDied{1, "p"}, HolderDied{1, "p"}, StreamEnded{1}},
                                                  {HolderDied{1, "p"}, StreamEnded{1}, HolderDied{1, "p"}},
                                                  {StreamEnded{1}, HolderDied{1, "p"}, HolderDied{1, "p"}}};
  for (const auto kind : {SessionKind::kSession, SessionKind::kHold}) {
    for (const auto& order : orders) {
      OneSession t(kind);
      t.Hold(1, 7, "a", 1);
      for (const Input& input : order) t.Do(input);
      const auto release = t.Take<StoreRelease>();
      EXPECT_EQ(release.owner, Owner(1));
      EXPECT_EQ(release.block, Duration::zero());
      t.Reply(release.op, GiveBackDone{.was_holder = true});
      t.Pass(2 * kT);
      EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "once";
      EXPECT_EQ(Freed(t), 1u);
      EXPECT_EQ(t.broker.Stats().leases + t.broker.Stats().sessions, 0u);
    }
  }
}

TEST(HolderDied, KeepsTheLockDelay) {
  for (const bool ended : {true, false}) {
    OneSession t;
    auto want = t.Want(1, 7, "a", 1);
    want.lock_delay = seconds(2);
    t.Do(want);
    t.GrantNext(42);
    if (ended) t.Do(StreamEnded{1});
    t.Do(HolderDied{1, "p"});
    EXPECT_EQ(t.Take<StoreRelease>().block, seconds(2));
  }
}

TEST(HolderDied, LeavesToTheirTtlWhatIsToLastForIt) {
  for (const bool ended : {true, false}) {
    OneSession t;
    auto want = t.Want(1, 7, "a", 1);
    want.on_disconnect = OnDisconnect::kExpire;
    t.Do(want);
    t.GrantNext(42);
    if (ended) t.Do(StreamEnded{1});
    t.Do(HolderDied{1, "p"});
    t.Pass(2 * kT);
    EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>() + t.Count<StoreRenew>(), 0u);
    EXPECT_EQ(Freed(t), 0u);
  }
}

// The former stream's client is another process, and may still believe.
TEST(HolderDied, LeavesAloneWhatAnotherProcessMayStillBelieveIn) {
  for (const bool ended : {true, false}) {
    OneSession t;
    t.Do(Adopt{.session = 1,
               .request = 7,
               .name = Name("a"),
               .from = Owner(9),
               .token = 42,
               .owner = Owner(1),
               .ttl = kT,
               .info = {},
               .reentry = {}});
    t.Reply(t.Take<StoreAdopt>().op,
            AdoptDone{.result = AdoptDone::Result::kAdopted, .since = t.StoreNow(), .ttl = kT});
    t.Event<Granted>(1, 7);
    if (ended) t.Do(StreamEnded{1});
    t.Do(HolderDied{1, "p"});
    EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  }
}

TEST(HolderDied, FreesWhatWasTakenByForceAndItsClientHasNotHeardOf) {
  OneSession t;
  const auto granted = t.Hold(1, 7, "a", 1);
  t.Do(ForceRelease{.session = 9,
                    .request = 1,
                    .name = granted.name,
                    .owner = granted.owner,
                    .token = granted.token,
                    .broker_id = "0123456789abcdef",
                    .reason = "why"});
  EXPECT_EQ(t.Count<StoreRelease>(), 0u) << "its client may believe";
  t.Do(HolderDied{1, "p"});
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
}

TEST(HolderDied, TellsOnlyItsOwnSession) {
  OneSession t;
  t.Open(2);
  t.Hold(1, 7, "a", 1);
  t.Hold(2, 7, "b", 2);
  t.Do(StreamEnded{1});
  t.Do(StreamEnded{2});
  t.Do(HolderDied{2, "p"});
  const auto release = t.Take<StoreRelease>();
  EXPECT_EQ(release.owner, Owner(2));
  t.Reply(release.op, GiveBackDone{.was_holder = true});
  t.Pass(kV - Duration(1));
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  t.Pass(Duration(1));
  EXPECT_EQ(t.Take<StoreRelease>().owner, Owner(1));
}

TEST(HolderDied, OfASessionThatIsNotKnownChangesNothing) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Do(HolderDied{77, "p"});
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
}

TEST(HolderDied, LeavesDetachedLeasesAndCallsAlone) {
  OneSession t;
  t.Do(t.WantDetached(3, 1, "a", 1));
  t.GrantNext(42);
  t.Do(t.WantDetached(4, 1, "a", 2));
  t.QueueNext();
  t.Do(HolderDied{3, "p"});
  t.Do(HolderDied{4, "p"});
  EXPECT_EQ(t.Count<StoreRelease>() + t.Count<StoreWithdraw>(), 0u);
  EXPECT_EQ(t.broker.Stats().waiters, 1u);
}

TEST(HolderDied, EndsAStreamThatIsStillOpen) {
  OneSession t;
  t.Hold(1, 7, "a", 1);
  t.Do(t.Want(1, 8, "b", 2));
  t.QueueNext();
  t.Do(HolderDied{1, "p"});
  EXPECT_EQ(t.Event<EndStream>(1, 0).why, StreamEnd::kHolderDied);
  EXPECT_EQ(t.broker.Stats().sessions + t.broker.Stats().waiters, 0u);
  t.notes.clear();
  t.Do(Heartbeat{1, 5});
  t.Do(t.Want(1, 9, "c", 3));
  t.Do(StreamEnded{1});
  EXPECT_TRUE(t.notes.empty());
}

TEST(HolderDied, FreesAReentrantLeaseOnce) {
  OneSession t;
  auto want = t.Want(1, 7, "a", 1);
  want.reentry = "me";
  t.Do(want);
  t.GrantNext(42);
  want.request = 8;
  t.Do(want);
  t.Event<Granted>(1, 8);
  t.Do(StreamEnded{1});
  t.Do(HolderDied{1, "p"});
  EXPECT_EQ(t.Count<StoreRelease>(), 1u);
  EXPECT_EQ(Freed(t), 1u);
}

TEST(HolderDied, AnEndedLeaseThatAnotherSessionTookOverIsNotFreed) {
  OneSession t;
  t.Open(2);
  const uint64_t token = t.Hold(1, 7, "a", 1).token;
  t.Do(StreamEnded{1});
  t.Do(Adopt{.session = 2,
             .request = 9,
             .name = Name("a"),
             .from = Owner(1),
             .token = token,
             .owner = Owner(2),
             .ttl = kT,
             .info = {},
             .reentry = {}});
  t.Reply(t.Take<StoreAdopt>().op, AdoptDone{.result = AdoptDone::Result::kAdopted, .since = t.StoreNow(), .ttl = kT});
  t.Do(HolderDied{1, "p"});
  EXPECT_EQ(t.Count<StoreRelease>(), 0u);
  EXPECT_EQ(t.broker.Stats().leases, 1u);
}

}  // namespace
}  // namespace distlock::core
