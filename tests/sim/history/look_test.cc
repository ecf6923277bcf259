// SPDX-License-Identifier: Apache-2.0
#include "history/violations.h"

namespace distlock::sim {
namespace {

using Holders = std::vector<Look::Holder>;

// Ann holds the lock from 10 to 50 with token 5 and bob from 100 to 150 with token 6, in the store's records and
// without them.
struct Scene {
  explicit Scene(bool with_store) {
    ann = b.Asks(0, "ann");
    bob = b.Asks(90, "bob");
    if (with_store) {
      b.HoldsInStore(10, 50, ann, 5);
      b.HoldsInStore(100, 150, bob, 6);
    } else {
      b.Holds(10, 50, ann, 5);
      b.Holds(100, 150, bob, 6);
    }
  }
  HistoryBuilder b;
  int64_t ann = 0;
  int64_t bob = 0;
};

std::string ViolatedBy(bool with_store, int64_t asked, int64_t told, bool shows_ann, bool shows_bob, uint64_t newest) {
  Scene scene(with_store);
  Holders holders;
  if (shows_ann) holders.push_back({scene.ann, 5});
  if (shows_bob) holders.push_back({scene.bob, 6});
  scene.b.ShowsLock(asked, told, holders, newest);
  return scene.b.Violated();
}

TEST(Looks, ShowWhoHoldsTheLockThen) {
  for (const bool with_store : {true, false}) {
    EXPECT_EQ(ViolatedBy(with_store, 20, 30, true, false, 5), "");
    EXPECT_EQ(ViolatedBy(with_store, 110, 120, false, true, 6), "");
    EXPECT_EQ(ViolatedBy(with_store, 60, 80, false, false, 5), "");
  }
}

TEST(Looks, ShowNoFormerHolder) {
  for (const bool with_store : {true, false}) {
    EXPECT_EQ(ViolatedBy(with_store, 60, 80, true, false, 5), "I14") << "released";
    EXPECT_EQ(ViolatedBy(with_store, 110, 120, true, false, 6), "I14") << "bob holds it";
    EXPECT_EQ(ViolatedBy(with_store, 110, 120, true, true, 6), "I14") << "beside bob";
  }
}

TEST(Looks, ShowNoFutureHolder) {
  EXPECT_EQ(ViolatedBy(true, 60, 80, false, true, 6), "I14 I15");
  EXPECT_EQ(ViolatedBy(false, 60, 80, false, true, 6), "I14");
}

TEST(Looks, ShowALockThatIsHeldAsHeld) {
  for (const bool with_store : {true, false}) {
    EXPECT_EQ(ViolatedBy(with_store, 20, 30, false, false, 5), "I14");
    EXPECT_EQ(ViolatedBy(with_store, 110, 120, false, false, 6), "I14");
  }
}

TEST(Looks, ThatCrossAChangeMayShowEitherSide) {
  for (const bool with_store : {true, false}) {
    EXPECT_EQ(ViolatedBy(with_store, 45, 60, true, false, 5), "") << "the release";
    EXPECT_EQ(ViolatedBy(with_store, 45, 60, false, false, 5), "") << "the release";
    EXPECT_EQ(ViolatedBy(with_store, 95, 105, false, false, 5), "") << "the grant";
    EXPECT_EQ(ViolatedBy(with_store, 95, 105, false, true, 6), "") << "the grant";
  }
}

TEST(Looks, ShowOneMomentNotTwo) {
  EXPECT_EQ(ViolatedBy(true, 45, 105, true, true, 6), "I14") << "never held both";
  EXPECT_EQ(ViolatedBy(true, 45, 105, false, false, 5), "");
}

// Records of one call of the store are one step: nobody sees the lock free between a release and the hand-off in it.
TEST(Looks, SeeNoGapInAHandOff) {
  for (const int64_t second_call : {7, 8}) {
    HistoryBuilder b;
    const int64_t ann = b.Asks(0, "ann");
    const int64_t bob = b.Asks(12, "bob");
    b.Queued(13, bob, 1);
    b.Holds(10, 50, ann, 5);
    b.Holds(52, 90, bob, 6);
    b.Took(9, ann, 5);
    b.ByCall(7).Freed(51, ann);
    b.ByCall(second_call).Took(51, bob, 6);
    b.ByCall(9).Freed(92, bob);
    b.ShowsLock(45, 60, {}, 5);
    EXPECT_VIOLATED(b, second_call == 7 ? "I14" : "");
  }
}

TEST(Looks, NameTheHolder) {
  for (const bool with_store : {true, false}) {
    Scene scene(with_store);
    scene.b.ShowsLock(20, 30, {{scene.bob, 5}}, 5);
    EXPECT_VIOLATED(scene.b, "I14");
  }
}

TEST(Looks, ShowAllReaders) {
  HistoryBuilder b;
  const Terms reading{.kind = HoldKind::kShared};
  const int64_t ann = b.Asks(0, "ann", reading);
  const int64_t bob = b.Asks(0, "bob", reading);
  b.HoldsInStore(10, 90, ann, 5);
  b.HoldsInStore(20, 60, bob, 6);
  b.ShowsLock(30, 40, {{ann, 5}, {bob, 6}}, 6);
  b.ShowsLock(70, 80, {{ann, 5}}, 6);
  EXPECT_VIOLATED(b, "");
  HistoryBuilder fewer = b;
  fewer.ShowsLock(30, 40, {{ann, 5}}, 6);
  EXPECT_VIOLATED(fewer, "I14");
  HistoryBuilder more = b;
  more.ShowsLock(70, 80, {{ann, 5}, {bob, 6}}, 6);
  EXPECT_VIOLATED(more, "I14");
}

TEST(Looks, ShowTheNewestToken) {
  for (const bool with_store : {true, false}) {
    EXPECT_EQ(ViolatedBy(with_store, 110, 120, false, true, 5), "I15") << "not 5 any more";
    EXPECT_EQ(ViolatedBy(with_store, 160, 170, false, false, 6), "") << "also of a lock that is free";
    EXPECT_EQ(ViolatedBy(with_store, 160, 170, false, false, 0), "I15") << "it is known";
  }
  EXPECT_EQ(ViolatedBy(true, 20, 30, true, false, 6), "I15") << "nobody has that yet";
}

TEST(Looks, CallATokenTheNewestWhileItIs) {
  for (const bool with_store : {true, false}) {
    const auto violated = [&](int64_t asked, int64_t told, uint64_t token, bool newest, uint64_t newest_token) {
      Scene scene(with_store);
      scene.b.ChecksToken(asked, told, token, newest, newest_token);
      return scene.b.Violated();
    };
    EXPECT_EQ(violated(20, 30, 5, true, 5), "");
    EXPECT_EQ(violated(110, 120, 5, false, 6), "");
    EXPECT_EQ(violated(95, 105, 5, true, 5), "") << "it crosses the grant";
    EXPECT_EQ(violated(95, 105, 5, false, 6), "") << "it crosses the grant";
    EXPECT_EQ(violated(110, 120, 5, true, 5), "I15") << "bob has been told of 6";
    EXPECT_EQ(violated(20, 30, 5, false, 5), "I15") << "it is the newest that it shows itself";
    EXPECT_EQ(violated(20, 30, 5, false, 4), "I15") << "no greater one has been given";
    EXPECT_EQ(violated(20, 30, 4, true, 5), "I15");
  }
}

TEST(Looks, ListWhatIsHeldThroughout) {
  for (const bool with_store : {true, false}) {
    const auto violated = [&](int64_t asked, int64_t told, bool listed) {
      Scene scene(with_store);
      scene.b.Lists(asked, told, listed ? std::vector<int32_t>{0} : std::vector<int32_t>{});
      return scene.b.Violated();
    };
    EXPECT_EQ(violated(20, 30, true), "");
    EXPECT_EQ(violated(20, 30, false), "I16");
    EXPECT_EQ(violated(45, 60, false), "") << "it is released meanwhile";
    EXPECT_EQ(violated(95, 105, false), "") << "it is granted meanwhile";
    EXPECT_EQ(violated(60, 80, false), "");
  }
}

TEST(Looks, OfAStoreThatForgot) {
  Scene scene(true);
  scene.b.Forgot(60);
  scene.b.ShowsLock(70, 80, {}, 0);
  EXPECT_VIOLATED(scene.b, "");
  scene.b.ShowsLock(110, 120, {{scene.bob, 6}}, 0);
  EXPECT_VIOLATED(scene.b, "I15") << "it has given a token since";
}

TEST(Looks, AreExcusedOnlyByAFailoverThatComesBetween) {
  for (const int64_t failover : {30, 55, 130}) {
    Scene scene(false);
    scene.b.Fault(failover, FaultKind::kPromoted, 5);
    scene.b.ShowsLock(70, 80, {{scene.ann, 5}}, 5);
    EXPECT_VIOLATED(scene.b, failover == 55 ? "" : "I14") << failover;
  }
  for (const int64_t failover : {70, 101, 130}) {
    Scene scene(false);
    scene.b.Fault(failover, FaultKind::kPromoted, 5);
    scene.b.ShowsLock(110, 120, {}, 5);
    EXPECT_VIOLATED(scene.b, failover == 101 ? "" : "I14 I15") << failover;
  }
}

TEST(Looks, OfAQuorumAreBlurredWhileAServerIsIll) {
  for (const bool ill : {false, true}) {
    Scene scene(false);
    scene.b.Raw().stray_votes = true;
    scene.b.Raw().joins_ns = 0;
    if (ill) scene.b.Fault(15, FaultKind::kStorePaused, 5);
    scene.b.ShowsLock(60, 80, {{scene.ann, 5}}, 5);
    scene.b.Lists(20, 30, {});
    EXPECT_VIOLATED(scene.b, ill ? "" : "I14 I16");
    scene.b.ShowsLock(110, 120, {{scene.bob, 6}}, 5);
    EXPECT_VIOLATED(scene.b, ill ? "I15" : "I14 I15 I16") << "most servers have the newest token";
  }
  for (const FaultKind fault : {FaultKind::kStoreRestarted, FaultKind::kLinkSlow}) {
    Scene scene(false);
    scene.b.Raw().stray_votes = true;
    scene.b.Fault(155, fault, 5);
    scene.b.ShowsLock(200, 210, {}, 0);
    EXPECT_VIOLATED(scene.b, fault == FaultKind::kStoreRestarted ? "" : "I15") << "one that comes back is empty";
  }
  Scene scene(false);
  scene.b.Raw().stray_votes = scene.b.Raw().silent_minority = true;
  scene.b.ShowsLock(60, 80, {{scene.ann, 5}}, 5);
  EXPECT_VIOLATED(scene.b, "");
}

TEST(Looks, OfAQuorumMayMissALockThatJoinsMeanwhile) {
  for (const int64_t joins_ms : {100, 5}) {
    Scene scene(false);
    scene.b.Raw().stray_votes = true;
    scene.b.Raw().joins_ns = joins_ms * 1'000'000;
    scene.b.Lists(20, 30, {});
    EXPECT_VIOLATED(scene.b, joins_ms == 5 ? "I16" : "");
  }
}

TEST(Looks, MayMissALockWhoseSlotMoves) {
  for (const bool moves : {false, true}) {
    Scene scene(true);
    scene.b.Raw().slots_move = moves;
    scene.b.Fault(15, FaultKind::kStoreRefuses, 5);
    scene.b.Lists(18, 30, {});
    EXPECT_VIOLATED(scene.b, moves ? "" : "I16");
    scene.b.Lists(25, 30, {});
    EXPECT_VIOLATED(scene.b, "I16");
  }
}

}  // namespace
}  // namespace distlock::sim
