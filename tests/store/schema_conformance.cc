// SPDX-License-Identifier: Apache-2.0
//
// The part of the suite that is about the schema: which releases may share a store.
#include "conformance.h"

namespace distlock::store {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr char kBrokerA[] = "00000000000000aa";
constexpr char kBrokerB[] = "00000000000000bb";
constexpr char kBrokerC[] = "00000000000000cc";

using Known = std::shared_ptr<std::atomic<uint32_t>>;

// A broker of a release that reads the schemas up to `newest`; the store was last seen to write `known`.
LockOptions Release(const std::string& broker_id, uint32_t newest, const Known& known = nullptr) {
  return {.broker_id = broker_id,
          .hold_off = {},
          .schema = {.task = SchemaTask::kServe, .oldest = 1, .newest = newest, .upgrade_to = 0, .known = known}};
}

LockOptions Upgrade(const std::string& broker_id, SchemaTask task, const Known& known = nullptr) {
  LockOptions locks = Release(broker_id, 2, known);
  locks.schema.task = task;
  locks.schema.upgrade_to = 2;
  return locks;
}

Known Seen(uint32_t schema) { return std::make_shared<std::atomic<uint32_t>>(schema); }

class Refused {
 public:
  Refused(StoreWorld& world, const LockOptions& locks) : store_(world.MakeStore(locks)) {
    store_->Start(&seen_);
    waited_ = world.RunUntil([&] { return seen_.Up() || Why().find("schema") != Why().npos; });
  }
  ~Refused() { store_->Stop(); }

  bool refused() const { return waited_ && !seen_.Up(); }
  std::string Why() const {
    const auto* down = seen_.Last<core::StoreDown>();
    return down == nullptr ? "" : down->cause;
  }

 private:
  Recorder seen_;
  const std::unique_ptr<Store> store_;
  bool waited_ = false;
};

}  // namespace

TEST_P(StoreConformance, BrokersOfTwoReleasesShareAStoreInEitherOrder) {
  const Known newer = Seen(0), older = Seen(0);
  {
    Broker a = MakeBroker(Release(kBrokerA, 2, newer));
    Broker b = MakeBroker(Release(kBrokerB, 1, older));
    EXPECT_EQ(newer->load(), 1u) << "a store without a mark is written so that the former release can read it";
    EXPECT_EQ(older->load(), 1u);
  }
  Broker c = MakeBroker(Release(kBrokerC, 2));
}

TEST_P(StoreConformance, AStoreThatIsWrittenInALaterSchemaIsNotUsed) {
  const Known known = Seen(2);
  Broker a = MakeBroker(Release(kBrokerA, 2, known));
  EXPECT_EQ(known->load(), 2u) << "it remembers what was written there";
  const Refused b(*world_, Release(kBrokerB, 1));
  EXPECT_TRUE(b.refused());
  EXPECT_NE(b.Why().find("written in schema 2"), std::string::npos) << b.Why();
  EXPECT_NE(b.Why().find("reads schema 1:"), std::string::npos) << b.Why();
}

TEST_P(StoreConformance, AStoreThatMayHaveOlderDataIsNotUsed) {
  Broker a = MakeBroker(Release(kBrokerA, 2, Seen(2)));
  LockOptions next = Release(kBrokerB, 3);
  next.schema.oldest = 2;
  const Refused b(*world_, next);
  EXPECT_TRUE(b.refused());
  EXPECT_NE(b.Why().find("may have data of schema 1"), std::string::npos) << b.Why();
}

TEST_P(StoreConformance, WhoHasSeenMoreThanAServerSaysRaisesIt) {
  {
    Broker a = MakeBroker(Release(kBrokerA, 2));
  }
  const Known known = Seen(2);
  Broker b = MakeBroker(Release(kBrokerB, 2, known));
  EXPECT_EQ(known->load(), 2u);
}

TEST_P(StoreConformance, NobodyRaisesTheSchemaOfABrokerThatMayRun) {
  Broker a = MakeBroker(Release(kBrokerA, 1));
  const Known known = Seen(2);
  Broker b = MakeBroker(Release(kBrokerB, 2, known));
  EXPECT_EQ(known->load(), 1u) << "it writes what the store says";
  for (const SchemaTask task : {SchemaTask::kAskUpgrade, SchemaTask::kUpgrade}) {
    const Refused upgrade(*world_, Upgrade(kBrokerC, task));
    EXPECT_TRUE(upgrade.refused());
    EXPECT_NE(upgrade.Why().find(kBrokerA), std::string::npos) << upgrade.Why();
  }
}

TEST_P(StoreConformance, WhoOnlyLooksIsNobodyWhoMayRun) {
  LockOptions looks = Release(kBrokerA, 1);
  looks.schema.task = SchemaTask::kLook;
  Broker a = MakeBroker(looks);
  const Known known = Seen(0);
  Broker upgrade = MakeBroker(Upgrade(kBrokerB, SchemaTask::kUpgrade, known));
  EXPECT_EQ(known->load(), 2u) << "no broker of schema 1 was seen";
}

TEST_P(StoreConformanceOverTime, AnUpgradeIsPossibleAnHourAfterTheLastOldBroker) {
  {
    Broker a = MakeBroker(Release(kBrokerA, 1));
  }
  world_->Advance(minutes(59));
  {
    EXPECT_TRUE(Refused(*world_, Upgrade(kBrokerB, SchemaTask::kUpgrade)).refused());
  }
  world_->Advance(minutes(1));
  {
    const Known known = Seen(0);
    Broker asks = MakeBroker(Upgrade(kBrokerB, SchemaTask::kAskUpgrade, known));
    EXPECT_EQ(known->load(), 1u) << "asked only";
  }
  const Known known = Seen(0);
  Broker upgrade = MakeBroker(Upgrade(kBrokerB, SchemaTask::kUpgrade, known));
  EXPECT_EQ(known->load(), 2u);
  EXPECT_TRUE(Refused(*world_, Release(kBrokerA, 1)).refused());
}

TEST_P(StoreConformanceOverTime, ABrokerThatRunsStaysOnRecord) {
  Broker a = MakeBroker(Release(kBrokerA, 1));
  world_->Advance(minutes(70));
  EXPECT_TRUE(Refused(*world_, Upgrade(kBrokerB, SchemaTask::kUpgrade)).refused());
  EXPECT_TRUE(a.seen->Up());
}

TEST_P(StoreConformanceOverTime, WhatWasWrittenBeforeAnUpgradeIsOverSomeTime) {
  LockOptions next = Release(kBrokerB, 3);
  next.schema.oldest = 2;
  next.token_keep = std::chrono::hours(1);
  {
    Broker a = MakeBroker(Release(kBrokerA, 2, Seen(2)));
  }
  world_->Advance(std::chrono::hours(26) - minutes(1));
  {
    EXPECT_TRUE(Refused(*world_, next).refused());
  }
  world_->Advance(minutes(1));
  Broker b = MakeBroker(next);
}

TEST_P(StoreConformanceOfPrimariesOverTime, ABrokerThatRunsLeavesAStoreThatItCannotRead) {
  Broker a = MakeBroker(Release(kBrokerA, 1));
  EXPECT_EQ(world_->Command({"HSET", "dl:schema", "writes", "2"}), "0");
  world_->Advance(seconds(61));
  EXPECT_FALSE(a.seen->Up());
  const auto* down = a.seen->Last<core::StoreDown>();
  ASSERT_NE(down, nullptr);
  EXPECT_NE(down->cause.find("schema 2"), std::string::npos) << down->cause;
}

TEST_P(StoreConformanceOfOneServer, ALostMarkIsMadeAnewAsItWas) {
  const Known known = Seen(2);
  Broker a = MakeBroker(Release(kBrokerA, 2, known));
  EXPECT_EQ(world_->Command({"DEL", "dl:schema"}), "1");
  world_->HangUp();
  ASSERT_TRUE(Await([&] { return world_->Command({"EXISTS", "dl:schema"}) == "1"; }));
  EXPECT_EQ(world_->Command({"HGET", "dl:schema", "writes"}), "2");
  EXPECT_EQ(world_->Command({"HGET", "dl:schema", "reads_from"}), "1") << "older data may be there";
}

TEST_P(StoreConformanceOfOneServer, AKeyOfAnothersIsNoMark) {
  EXPECT_EQ(world_->Command({"SET", "dl:schema", "x"}), "OK");
  const Refused a(*world_, Release(kBrokerA, 1));
  EXPECT_TRUE(a.refused());
  EXPECT_NE(a.Why().find("dl:schema"), std::string::npos) << a.Why();
  EXPECT_EQ(world_->Command({"GET", "dl:schema"}), "x");
}

}  // namespace distlock::store
