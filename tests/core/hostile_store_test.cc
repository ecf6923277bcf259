// SPDX-License-Identifier: Apache-2.0
//
// Answers that decode and yet make no sense: huge ttls, times out of this world, grants that nobody asked for. Meant
// for UndefinedBehaviorSanitizer; everywhere it must stay on its feet and promise nothing beyond what it asked for.
#include <random>

#include "table.h"

namespace distlock::core {
namespace {

class HostileStore {
 public:
  explicit HostileStore(uint64_t seed) : random_(seed) {}

  uint64_t Roll(uint64_t n) { return random_() % n; }

  template <typename T>
  T Pick(std::initializer_list<T> from) {
    return from.begin()[Roll(from.size())];
  }
  // As far as the codec lets them through.
  Duration Time() { return Pick<Duration>({Duration::max() / 4, kT, seconds(1), milliseconds(1), Duration::zero()}); }
  StoreTime Clock(const Table& t) {
    return Pick<StoreTime>({t.StoreNow(), t.StoreNow(), kMaxStoreTime, {kMaxStoreTime.us - 1}, {1}, {0}});
  }
  Duration Difference() {
    const Duration most = microseconds(kMaxStoreTime.us);
    return Pick<Duration>({Duration::zero(), Duration::zero(), most, -most, seconds(3), -seconds(3)});
  }
  OwnerId Who() { return Roll(8) == 0 ? OwnerId{} : Owner(static_cast<int>(Roll(6))); }
  HolderView Holder(const Table& t) {
    return HolderView{.owner = Who(),
                      .token = random_(),
                      .since = Clock(t),
                      .held_for = Difference(),
                      .ttl = Time(),
                      .lock_delay = Time(),
                      .time_left = Time(),
                      .wanted_by = Roll(2),
                      .info = ""};
  }

  decltype(StoreReply::outcome) Answer(const Table& t) {
    const auto length = static_cast<uint32_t>(random_());
    std::vector<HolderView> holders;
    if (Roll(4) != 0) holders.push_back(Holder(t));
    if (Roll(4) == 0) holders.push_back(Holder(t));
    const auto left = Roll(2) == 0 ? std::optional(Time()) : std::nullopt;
    switch (Roll(12)) {
      case 0:
        return AcquireQueued{length, holders, length, left, Roll(3)};
      case 1:
        return AcquireHeld{holders, length, left};
      case 2:
        return AcquireLate{};
      case 3:
        return AcquireQueueFull{length};
      case 4:
        return RenewDoneBatch{std::vector<RenewResult>(Roll(3), Pick({RenewResult::kRenewed, RenewResult::kAnothers,
                                                                      RenewResult::kUnanswered})),
                              std::vector<Duration>(Roll(2), Difference())};
      case 5:
        return GiveBackDone{
            .was_holder = Roll(2) == 0, .was_waiter = Roll(2) == 0, .look = Roll(4) == 0, .next = holders};
      case 6:
        return TendDone{
            .slot_was_gone = Roll(4) == 0, .more = Roll(8) == 0, .holders = holders, .left = left, .as_of = Roll(3)};
      case 7:
        return StoreUnknown{"odd"};
      case 8:
        return StoreFailed{Pick({FailureKind::kFull, FailureKind::kUnavailable, FailureKind::kNotSent}), "odd"};
      case 9:
        return AcquireMismatch{Pick({Mode::kShared, Mode::kPermit}), length};
      case 10:
        return WantedDone{Roll(2) == 0, length};
      default:
        return AcquireGranted{random_(), Clock(t), Difference()};
    }
  }

 private:
  std::mt19937_64 random_;
};

void Call(Table& t, HostileStore& store, SessionId session) {
  auto want = t.Want(session, session, "a", static_cast<int>(1000 + session));
  want.detached = store.Roll(2) == 0;
  want.max_hold = store.Pick<Duration>({Duration::zero(), seconds(5), hours(24 * 3650)});
  want.tell_wanted = !want.detached && store.Roll(2) == 0;
  if (want.detached) return t.Do(want);
  t.Open(session, store.Pick({SessionKind::kSession, SessionKind::kHold}));
  t.Do(want);
  if (store.Roll(3) == 0) {
    t.Do(Renew{.session = session + 1'000'000,
               .request = 1,
               .name = Name("a"),
               .owner = store.Who(),
               .token = 1 + store.Roll(9),
               .ttl = hours(1),
               .hold_until = store.Clock(t)});
  }
}

TEST(HostileStore, IsSurvived) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    HostileStore store(seed);
    Table t;
    t.StoreComesUp();
    for (SessionId step = 1; step <= 200; ++step) {
      if (store.Roll(3) == 0) Call(t, store, step);
      std::vector<StoreCommand> commands = std::exchange(t.commands, {});
      for (const StoreCommand& command : commands) {
        const OpId op = std::visit([](const auto& sent) { return sent.op; }, command);
        if (store.Roll(5) != 0) t.Reply(op, store.Answer(t));
      }
      if (store.Roll(3) == 0) {
        t.Do(GrantNotice{Name("a"), store.Who(), store.Roll(99), store.Clock(t), store.Time(),
                         t.now - store.Difference()});
      }
      if (store.Roll(3) == 0) t.Do(WantedNotice{Name("a"), store.Who(), store.Roll(99)});
      if (store.Roll(30) == 0) t.Do(StoreClockStep{store.Difference()});
      if (store.Roll(9) == 0) t.Do(StreamEnded{store.Roll(step) + 1});
      t.now += milliseconds(store.Roll(3000));
      t.Do(Tick{});
      for (const Notify& note : t.notes) {
        const auto* granted = std::get_if<Granted>(&note.event);
        EXPECT_TRUE(granted == nullptr || granted->valid_for > Duration::zero());
        const auto* renewed = std::get_if<RenewDone>(&note.event);
        EXPECT_TRUE(renewed == nullptr || renewed->valid_for <= hours(1) + seconds(5)) << "counted from the request";
      }
      t.notes.clear();
    }
  }
}

}  // namespace
}  // namespace distlock::core
