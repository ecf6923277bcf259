// SPDX-License-Identifier: Apache-2.0
//
// Holders that asked for it are told when somebody wants their locks, here or through their own broker.
#include "several.h"

namespace distlock::core {
namespace {

constexpr uint64_t kTokenHeld = 42;
constexpr uint64_t kThrough = 0xb2;  // a broker's number

HolderView HolderOf(int owner, uint64_t token = kTokenHeld, uint64_t wanted_by = kThrough) {
  return {.owner = Owner(owner), .token = token, .ttl = kT, .time_left = seconds(9), .wanted_by = wanted_by};
}

// Session 1 has the lock "a" by request 7, as owner 1, and asked to be told. Session 2 is open.
struct Holding : Several {
  explicit Holding(bool tell_wanted = true, SessionKind kind = SessionKind::kSession) {
    if (kind == SessionKind::kHold) Open(3, kind);
    Open(2);
    Acquire want = Want(kind == SessionKind::kHold ? 3 : 1, 7, "a", 1);
    want.tell_wanted = tell_wanted;
    Do(want);
    EXPECT_EQ(GrantNext(kTokenHeld).tell_wanted, tell_wanted);
    notes.clear();
  }
  // Session 2 begins to wait for it, and is shown these holders.
  void Waits(RequestId request, std::vector<HolderView> holders) {
    Do(Want(2, request, "a", static_cast<int>(request)));
    Reply(Take<StoreAcquire>().op, AcquireQueued{0, std::move(holders), 1, seconds(9)});
  }
  // One try of session 2 is refused, and shown these holders.
  void Tries(RequestId request, std::vector<HolderView> holders) {
    Acquire want = Want(2, request, "a", static_cast<int>(request));
    want.max_wait = Duration::zero();
    Do(want);
    Reply(Take<StoreAcquire>().op, AcquireHeld{std::move(holders), 0, seconds(9)});
  }
};

TEST(Wants, AWaiterAndAOneTryTellTheHolder) {
  for (const bool waits : {true, false}) {
    Holding t;
    waits ? t.Waits(20, {HolderOf(1)}) : t.Tries(20, {HolderOf(1)});
    const auto wanted = t.Event<Wanted>(1, 7);
    EXPECT_EQ(wanted.name, Name("a"));
    EXPECT_EQ(wanted.owner, Owner(1));
    EXPECT_EQ(wanted.token, kTokenHeld);
    EXPECT_EQ(t.Count<StoreWanted>(), 0u) << "its broker is this one";
    EXPECT_EQ(t.Events<Wanted>(), 0u) << "once";
  }
}

TEST(Wants, ADetachedRequestTells) {
  Holding t;
  Acquire want = t.WantDetached(9, 1, "a", 20);
  want.max_wait = Duration::zero();
  t.Do(want);
  t.Reply(t.Take<StoreAcquire>().op, AcquireHeld{{HolderOf(1)}, 0, seconds(9)});
  EXPECT_EQ(t.Events<Wanted>(), 1u);
}

TEST(Wants, AHoldIsTold) {
  Holding t(true, SessionKind::kHold);
  t.Waits(20, {HolderOf(1)});
  t.Event<Wanted>(3, 7);
}

TEST(Wants, AHolderThatDidNotAskCostsNothing) {
  Holding t(/*tell_wanted=*/false);
  const size_t timers = t.broker.Stats().timers;
  t.Tries(20, {HolderOf(1, kTokenHeld, 0)});
  t.Tries(21, {HolderOf(5, kTokenHeld, 0)});
  EXPECT_EQ(t.broker.Stats().timers, timers);
  EXPECT_EQ(t.broker.Stats().ops, 0u);
  EXPECT_EQ(t.Events<Wanted>() + t.Count<StoreWanted>(), 0u);
}

TEST(Wants, AHolderOfAnotherBrokerIsToldThroughTheStore) {
  Holding t;
  t.Waits(20, {HolderOf(5, 77)});
  const auto ask = t.Take<StoreWanted>();
  EXPECT_EQ(ask.name, Name("a"));
  EXPECT_EQ(ask.owner, Owner(5));
  EXPECT_EQ(ask.token, 77u);
  EXPECT_EQ(ask.through, kThrough);
  t.Reply(ask.op, WantedDone{true, 3});
  EXPECT_EQ(t.Events<Wanted>() + t.Count<StoreWanted>(), 0u);
}

TEST(Wants, EachOfSeveralHoldersIsToldAndABlockIsNobody) {
  Holding t;
  HolderView block = HolderOf(0, 80);
  block.owner = {};
  t.Tries(20, {block, HolderOf(5, 77), HolderOf(6, 78, 0), HolderOf(8, 0), HolderOf(1)});
  EXPECT_EQ(t.Take<StoreWanted>().owner, Owner(5));
  EXPECT_EQ(t.Count<StoreWanted>(), 0u);
  EXPECT_EQ(t.Events<Wanted>(), 1u);
}

TEST(Wants, AGrantIsToldOfTenTimesASecondAtMost) {
  Holding t;
  for (RequestId request = 100; request < 1100; ++request) {
    t.Tries(request, {HolderOf(1), HolderOf(5, 77)});
    t.Pass(milliseconds(1));
  }
  EXPECT_GE(t.Events<Wanted>(), 9u);
  EXPECT_LE(t.Events<Wanted>(), 11u);
  EXPECT_EQ(t.Count<StoreWanted>(), t.Events<Wanted>());
}

TEST(Wants, TheLastWishIsToldOfAfterThePace) {
  Holding t;
  const size_t timers = t.broker.Stats().timers;
  t.Tries(20, {HolderOf(1)});
  t.Tries(21, {HolderOf(1)});
  EXPECT_EQ(t.Events<Wanted>(), 1u);
  t.Pass(milliseconds(100));
  EXPECT_EQ(t.Events<Wanted>(), 2u);
  t.Pass(milliseconds(100));
  EXPECT_EQ(t.Events<Wanted>(), 2u);
  EXPECT_EQ(t.broker.Stats().timers, timers) << "nothing is kept of it";
}

TEST(Wants, ANoticeIsForTheGrantThatItNames) {
  Holding t;
  t.Do(WantedNotice{Name("a"), Owner(1), kTokenHeld + 1});
  t.Do(WantedNotice{Name("a"), Owner(5), kTokenHeld});
  EXPECT_EQ(t.Events<Wanted>(), 0u);
  t.Do(WantedNotice{Name("a"), Owner(1), kTokenHeld});
  t.Event<Wanted>(1, 7);
  Holding plain(/*tell_wanted=*/false);
  plain.Do(WantedNotice{Name("a"), Owner(1), kTokenHeld});
  EXPECT_EQ(plain.Events<Wanted>(), 0u) << "it did not ask";
}

TEST(Wants, ALeaseThatIsOverIsNotToldOf) {
  for (const bool is_released : {true, false}) {
    Holding t;
    if (is_released) t.Do(Release{.session = 1, .request = 8, .acquire = 7, .name = {}});
    if (!is_released) t.Do(StreamEnded{1});
    t.Do(WantedNotice{Name("a"), Owner(1), kTokenHeld});
    EXPECT_EQ(t.Events<Wanted>(), 0u);
  }
}

TEST(Wants, EachRequestThatHasAReentrantLeaseIsTold) {
  Several t;
  for (const RequestId request : {7, 8}) {
    Acquire want = t.Want(1, request, "a", static_cast<int>(request));
    want.reentry = "me";
    want.tell_wanted = true;
    t.Do(want);
    if (request == 7) t.GrantNext(kTokenHeld);
  }
  t.Do(WantedNotice{Name("a"), Owner(7), kTokenHeld});
  t.Event<Wanted>(1, 7);
  t.Event<Wanted>(1, 8);
}

TEST(Wants, AMismatchShowsNoHolderAndTellsThoseThatAreHere) {
  for (const bool tell_wanted : {true, false}) {
    Holding t(tell_wanted);
    Acquire want = t.Want(2, 20, "a", 20);
    want.want.mode = Mode::kShared;
    t.Do(want);
    t.Reply(t.Take<StoreAcquire>().op, AcquireMismatch{Mode::kExclusive, 0});
    EXPECT_EQ(t.Events<Wanted>(), tell_wanted ? 1u : 0u);
  }
}

TEST(Wants, ATendThatShowsTheSameGrantRepeatsIt) {
  Holding t;
  t.Waits(20, {HolderOf(5, 77)});
  EXPECT_EQ(t.Count<StoreWanted>(), 1u);
  t.commands.clear();
  for (uint64_t seq = 1; t.Count<StoreTend>() == 0 && seq < 12; ++seq) {
    t.Do(Heartbeat{1, seq});
    t.Do(Heartbeat{2, seq});
    t.Pass(seconds(1));
  }
  t.Reply(t.Take<StoreTend>().op, TendDone{.holders = {HolderOf(5, 77, 0)}, .left = seconds(9)});
  EXPECT_EQ(t.Take<StoreWanted>().through, kThrough) << "a tend itself does not show it";
}

// ---- A lease behind which others may wait unseen.

TEST(Wants, ALeaseThatWasHandedOnAsksWhoWaits) {
  for (const uint32_t waiting : {0u, 2u}) {
    Several t;
    Acquire want = t.Want(1, 7, "a", 1);
    want.tell_wanted = true;
    t.Do(want);
    t.QueueNext();
    t.Do(GrantNotice{Name("a"), Owner(1), kTokenHeld, t.StoreNow(), kT, t.now});
    t.Event<Granted>(1, 7);
    const auto ask = t.Take<StoreWanted>();
    EXPECT_EQ(ask.owner, Owner(1));
    EXPECT_EQ(ask.token, kTokenHeld);
    EXPECT_EQ(ask.through, 0u) << "this broker";
    t.Reply(ask.op, WantedDone{true, waiting});
    EXPECT_EQ(t.Events<Wanted>(), waiting == 0 ? 0u : 1u);
  }
}

TEST(Wants, ALeaseThatIsGrantedAtOnceAsksNothing) {
  for (const bool answers : {true, false}) {
    Several t;
    Acquire want = t.Want(1, 7, "a", 1);
    want.tell_wanted = true;
    t.Do(want);
    if (!answers) {
      t.Reply(t.Take<StoreAcquire>().op, StoreUnknown{"reset"});
      t.Pass(seconds(1));
    }
    t.GrantNext(kTokenHeld);
    EXPECT_EQ(t.Count<StoreWanted>(), answers ? 0u : 1u) << "others may have waited since an earlier attempt";
  }
}

TEST(Wants, ALeaseThatDidNotAskIsNotAskedAbout) {
  Several t;
  t.Do(t.Want(1, 7, "a", 1));
  t.QueueNext();
  t.Do(GrantNotice{Name("a"), Owner(1), kTokenHeld, t.StoreNow(), kT, t.now});
  EXPECT_EQ(t.Events<Granted>(), 1u);
  EXPECT_EQ(t.Count<StoreWanted>(), 0u);
}

TEST(Wants, AnAdoptedLeaseAsksWhoWaits) {
  Several t;
  t.Do(Adopt{.session = 1,
             .request = 7,
             .name = Name("a"),
             .from = Owner(5),
             .token = kTokenHeld,
             .owner = Owner(6),
             .ttl = kT,
             .tell_wanted = true,
             .info = "i"});
  const auto adopt = t.Take<StoreAdopt>();
  EXPECT_TRUE(adopt.tell_wanted);
  t.Reply(adopt.op, AdoptDone{.result = AdoptDone::Result::kAdopted, .since = t.StoreNow(), .ttl = kT});
  const auto ask = t.Take<StoreWanted>();
  EXPECT_EQ(ask.owner, Owner(6));
  t.Reply(ask.op, WantedDone{true, 1});
  t.Event<Wanted>(1, 7);
}

TEST(Wants, AnAnswerAboutALeaseThatIsOverTellsNobody) {
  Several t;
  Acquire want = t.Want(1, 7, "a", 1);
  want.tell_wanted = true;
  t.Do(want);
  t.QueueNext();
  t.Do(GrantNotice{Name("a"), Owner(1), kTokenHeld, t.StoreNow(), kT, t.now});
  const auto ask = t.Take<StoreWanted>();
  t.Do(Release{.session = 1, .request = 8, .acquire = 7, .name = {}});
  t.Reply(ask.op, WantedDone{true, 1});
  EXPECT_EQ(t.Events<Wanted>(), 0u);
}

TEST(Wants, AFailureIsNotRepeated) {
  Holding t;
  t.Waits(20, {HolderOf(5, 77)});
  t.Reply(t.Take<StoreWanted>().op, StoreUnknown{"reset"});
  t.Pass(milliseconds(500));
  EXPECT_EQ(t.Count<StoreWanted>(), 0u) << "it is a hint";
}

TEST(Wants, NothingIsSentToAStoreThatIsDown) {
  Holding t;
  t.Tries(20, {HolderOf(5, 77)});
  t.Tries(21, {HolderOf(5, 77)});
  t.commands.clear();
  t.Do(StoreDown{"gone"});
  t.Pass(milliseconds(200));
  t.Do(StoreUp{});
  t.Pass(milliseconds(200));
  EXPECT_EQ(t.Count<StoreWanted>(), 0u);
}

// ---- Several locks.

TEST(Wants, ALockOfSeveralIsToldOfWhenAllAreThere) {
  Several t(/*takes_many_at_once=*/false);
  t.Open(2);
  AcquireAll all = t.All({"a", "b"});
  for (Acquire& part : all.parts) part.tell_wanted = true;
  t.Do(all);
  t.GrantNext(41);
  t.QueueNext();
  t.Do(WantedNotice{Name("a"), Owner(1), 41});
  EXPECT_EQ(t.Events<Wanted>() + t.Count<StoreWanted>(), 0u) << "its client has no lease yet";
  t.Pass(seconds(1));
  t.Do(GrantNotice{Name("b"), Owner(2), 42, t.StoreNow(), kT, t.now});
  EXPECT_EQ(t.Events<Granted>(), 2u);
  for (const uint64_t token : {41, 42}) {
    const auto ask = t.Take<StoreWanted>();
    EXPECT_EQ(ask.token, token);
    t.Reply(ask.op, WantedDone{true, 1});
  }
  t.Event<Wanted>(1, 7);
  t.Event<Wanted>(1, 8);
}

TEST(Wants, SeveralThatAreFreeAtOnceAskNothing) {
  Several t;
  AcquireAll all = t.All({"a", "b"});
  for (Acquire& part : all.parts) part.tell_wanted = true;
  t.Do(all);
  const auto ask = t.Take<StoreAcquireAll>();
  EXPECT_TRUE(ask.items[0].tell_wanted && ask.items[1].tell_wanted);
  t.Reply(ask.op, AcquireAllDone{{{41, t.StoreNow()}, {42, t.StoreNow()}}});
  EXPECT_EQ(t.Events<Granted>(), 2u);
  EXPECT_EQ(t.Count<StoreWanted>(), 0u);
}

TEST(Wants, ADrainDoesNotWaitForThem) {
  Holding t;
  t.Tries(20, {HolderOf(5, 77)});
  t.Do(Release{.session = 1, .request = 8, .acquire = 7, .name = {}});
  t.Reply(t.Take<StoreRelease>().op, GiveBackDone{.was_holder = true, .next = {}});
  t.Do(Drain{seconds(5)});
  EXPECT_EQ(t.drains, 1);
}

}  // namespace
}  // namespace distlock::core
