// SPDX-License-Identifier: Apache-2.0
//
// Watches without the other parts: see watches_test.cc for what callers see of them.
#include <string>
#include <utility>
#include <vector>

#include "alone.h"
#include "core/limits.h"
#include "core/watches.h"

namespace distlock::core {
namespace {

struct Watched : Alone {
  Watches watches{core};

  void Watch(SessionId session, const std::string& key) { watches.Handle(WatchLock{session, 1, Name(key)}); }
  void Change(const std::string& key) { watches.Handle(ChangeNotice{Name(key)}); }
  void Answer(OpId op, decltype(StoreReply::outcome) outcome) {
    const std::optional<Op> sent = core.TakeOp(op);
    StoreReply reply{op, std::move(outcome)};
    watches.OnReply(*sent, op, reply);
  }
  // Shows a lock that `holder` has, with so much time left, to the only look that was sent.
  void Show(int holder, Duration left = hours(1)) {
    const auto looks = Take<StoreWatch>();
    ASSERT_EQ(looks.size(), 1u);
    Answer(looks[0].op, Held(holder, left));
  }
  static WatchDone Held(int holder, Duration left = hours(1)) {
    return {{.holders = {{.owner = Owner(holder), .time_left = left}}, .holder_count = 1}};
  }
  // Runs the deadline that is due; false: none is.
  bool RunDue() {
    Timed* const due = PopDue();
    if (due != nullptr) watches.OnTimer(static_cast<struct Watch&>(*due));
    return due != nullptr;
  }
  std::vector<SessionId> Told() {
    std::vector<SessionId> sessions;
    for (const Notify& note : Take<Notify>()) sessions.push_back(note.session);
    return sessions;
  }
};

TEST(WatchRecords, ALookForStreamsThatAreGoneIsNotShownToTheNext) {
  Watched t;
  t.Watch(1, "a");
  const auto earlier = t.Take<StoreWatch>();
  t.watches.OnStreamEnd(9);
  EXPECT_EQ(t.watches.size(), 1u) << "that stream watches nothing";
  t.watches.OnStreamEnd(1);
  EXPECT_EQ(t.watches.size() + t.core.timers.size(), 0u);
  t.Watch(2, "a");
  const auto later = t.Take<StoreWatch>();
  t.Answer(earlier.at(0).op, Watched::Held(5));
  EXPECT_TRUE(t.Told().empty());
  t.Pass(kLookPace);
  t.Change("a");
  EXPECT_TRUE(t.Take<StoreWatch>().empty()) << "the look for the next stream is under way";
  t.Answer(later.at(0).op, Watched::Held(6));
  EXPECT_EQ(t.Told(), std::vector<SessionId>{2});
}

TEST(WatchRecords, WithoutTheStoreNothingIsDueUntilItIsBack) {
  Watched t;
  t.Watch(1, "a");
  t.core.store_up = false;
  t.Watch(2, "b");
  t.Answer(t.Take<StoreWatch>().at(0).op, StoreFailed{FailureKind::kNotSent, "gone"});
  EXPECT_EQ(t.core.timers.size(), 0u);
  t.Pass(kLookPace);
  t.core.store_up = true;
  t.watches.LookAtAll();
  const auto looks = t.Take<StoreWatch>();
  ASSERT_EQ(looks.size(), 2u);
  EXPECT_EQ(looks[0].name, Name("a"));
  EXPECT_EQ(looks[1].name, Name("b"));
}

TEST(WatchRecords, AForeignKeyEndsTheWatchesOfItsLockOnly) {
  Watched t;
  t.Watch(2, "a");
  t.Watch(1, "a");
  t.Watch(3, "b");
  t.Answer(t.Take<StoreWatch>().at(0).op, StoreFailed{FailureKind::kForeignKey, "a list"});
  EXPECT_EQ(t.Told(), (std::vector<SessionId>{1, 2}));
  EXPECT_EQ(t.watches.size(), 1u);
  t.Watch(1, "c");
  EXPECT_EQ(t.watches.size(), 2u) << "a stream that was refused may watch again";
}

TEST(WatchRecords, EachLockHasAPaceOfItsOwn) {
  Watched t;
  t.Watch(1, "a");
  t.Show(5);
  t.Change("a");
  EXPECT_TRUE(t.Take<StoreWatch>().empty());
  t.Watch(2, "b");
  t.Show(5);
  t.Pass(kLookPace);
  EXPECT_TRUE(t.RunDue());
  EXPECT_EQ(t.Take<StoreWatch>().at(0).name, Name("a"));
  EXPECT_FALSE(t.RunDue());
}

// The look that repeats one that failed shows the change as well.
TEST(WatchRecords, AChangeDuringALookThatFailsIsOneLook) {
  Watched t;
  t.Watch(1, "a");
  t.Change("a");
  t.Answer(t.Take<StoreWatch>().at(0).op, StoreUnknown{"reset"});
  t.Pass(kLookPace);
  EXPECT_FALSE(t.RunDue()) << "a store that fails is not asked again at once";
  t.Pass(seconds(1));
  EXPECT_TRUE(t.RunDue());
  t.Show(5);
  t.Pass(seconds(1));
  EXPECT_FALSE(t.RunDue());
}

TEST(WatchRecords, AHolderThatShouldHaveEndedIsLookedAtSoonAndNotAtOnce) {
  Watched t;
  t.Watch(1, "a");
  t.Show(5, -seconds(9));
  EXPECT_FALSE(t.RunDue());
  t.Pass(kExpirySlack);
  EXPECT_FALSE(t.RunDue()) << "the store expires keys lazily";
  t.Pass(kRetryMin + kRetryMin / 2);
  EXPECT_TRUE(t.RunDue());
}

TEST(WatchRecords, EndOfAllEndsEachStreamOnce) {
  Watched t;
  t.Watch(3, "a");
  t.Watch(1, "b");
  t.Watch(2, "a");
  t.watches.EndAll();
  EXPECT_EQ(t.Told(), (std::vector<SessionId>{1, 2, 3}));
  EXPECT_EQ(t.watches.size() + t.core.timers.size(), 0u);
  t.watches.EndAll();
  EXPECT_TRUE(t.Told().empty());
}

}  // namespace
}  // namespace distlock::core
