// SPDX-License-Identifier: Apache-2.0
//
// A command was sent while its broker knew that the server held nobody off. It arrives when that counts no more: the
// server may have been replaced meanwhile, and be back with older data, and another connection is told of its hold-off.
// So nobody new is granted a lock by it, also when it was sent during an earlier hold-off that is over.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "fake_network.h"
#include "redis/known_clock.h"
#include "redis/redis_model.h"
#include "store/redis/census.h"
#include "store/redis/codec.h"
#include "store/redis/resp.h"
#include "store/redis/script_caller.h"
#include "store/text.h"

namespace distlock::store::late_knowledge {
namespace {

using core::Duration;
using core::OwnerId;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kStart = 1'700'000'000'000'000;
constexpr Duration kMostLate = seconds(20);  // as in the simulations
const core::StoreTime kNow{kStart};

core::LockName TheLock() { return core::LockName::Encode("default", "k"); }
OwnerId OwnerOf(uint8_t number) {
  OwnerId owner{};
  owner.back() = number;
  return owner;
}
const OwnerId kHolder = OwnerOf(1), kWaiter = OwnerOf(2), kReader = OwnerOf(3);

core::StoreAcquire Acquire(const OwnerId& owner, bool wait, core::Mode mode = core::Mode::kExclusive) {
  core::StoreAcquire acquire{.name = TheLock(), .owner = owner, .ttl = seconds(60), .wait = wait, .info = "i"};
  acquire.want.mode = mode;
  return acquire;
}

class LateKnowledge : public testing::Test {
 protected:
  LateKnowledge() {
    for (const lua::ScriptSource* script : AllScripts()) Run(LoadCommand(*script));
    timers_.Advance(Now() - timers_.Now());
    census_.Meet({.identity = "a:1"});
    codec_.Obey(&census_, &timers_);
    Know(kNow.us - std::chrono::hours(1) / microseconds(1));
  }

  core::Instant Now() const { return core::Instant(microseconds(model_.now_us())); }
  // The server has just said since when its data are complete.
  void Know(int64_t since_us) {
    census_.OnSame(Now());
    census_.OnCount({.time = kNow, .since = {since_us}, .hold_off = seconds(1), .longest_ttl = seconds(1)}, Now());
  }
  ReplyPtr Run(std::string_view bytes) { return model_.Execute(1, sim::ParseCommand(bytes)); }
  std::string Encoded(const core::StoreCommand& command) { return codec_.Encode(command).bytes; }
  void Do(const core::StoreCommand& command) { Run(Encoded(command)); }

  // The token of the one that has it EXCLUSIVE.
  uint64_t Token() {
    const std::string value(model_.String("dl:{default/k}:h").value_or(""));
    return value.size() < 36 ? 0 : std::strtoull(value.c_str() + 35, nullptr, 10);
  }
  bool HasIt(const OwnerId& owner) {
    const auto value = model_.String("dl:{default/k}:h").value_or("");
    return value.starts_with(Cat("1;", HexOfOwner(owner), ";"));
  }
  size_t Waiting() { return model_.Zset("dl:{default/k}:q").size(); }
  bool IsFree() { return Text(*Run(MakeCommand({"TYPE", "dl:{default/k}:h"}))) == "none"; }

  sim::RedisModel model_{kStart};
  FakeTimers timers_;
  Census census_{{.kind = HoldOffOptions::Kind::kAuto, .longest_ttl = seconds(1), .can_fail_over = true}, 0};
  Codec codec_{LockOptions{.broker_id = "00000000000000b1", .queue_slot = seconds(60)}, sim::KnownClock()};
};

// A command that its broker sent before it was late, about a lock with a holder and one who waits.
struct Case {
  const char* name;
  std::function<core::StoreCommand(uint64_t token)> command;
  bool frees = false;    // ends the hold, whenever it arrives
  bool hands_on = true;  // in time, to who waits at the same broker
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> all = {
      {"tend", [](uint64_t) { return core::StoreTend{.name = TheLock(), .asked = {kWaiter}}; }},
      {"acquire", [](uint64_t) { return Acquire(OwnerOf(4), false); }, false, false},
      {"acquire_by_who_waits", [](uint64_t) { return Acquire(kWaiter, true); }},
      {"acquire_all", [](uint64_t) { return core::StoreAcquireAll{.items = {Acquire(OwnerOf(4), false)}}; }, false,
       false},
      {"release",
       [](uint64_t token) { return core::StoreRelease{.name = TheLock(), .owner = kHolder, .token = token}; }, true},
      {"withdraw", [](uint64_t) { return core::StoreWithdraw{.name = TheLock(), .owner = kHolder}; }, true},
      {"force", [](uint64_t token) { return core::StoreForce{.name = TheLock(), .owner = kHolder, .token = token}; },
       true},
  };
  return all;
}

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class LateCommands : public LateKnowledge, public testing::WithParamInterface<Case> {};

TEST_P(LateCommands, LetNobodyIn) {
  Do(Acquire(kHolder, false));
  Do(Acquire(kWaiter, true));
  const uint64_t token = Token();
  ASSERT_TRUE(HasIt(kHolder) && Waiting() == 1);
  const std::string late = Encoded(GetParam().command(token));
  // As at a server that comes back with older data: others have its locks.
  if (!GetParam().frees) Run(MakeCommand({"DEL", "dl:{default/k}:h"}));
  model_.SetClock(model_.now_us() + kMostLate / microseconds(1));
  const ReplyPtr reply = Run(late);
  EXPECT_FALSE(IsError(*reply)) << Text(*reply);
  EXPECT_TRUE(IsFree()) << "what it ends has ended, and nobody has it";
  EXPECT_EQ(Waiting(), 1u);
}

TEST_P(LateCommands, ThatAreInTimeDoWhatTheySay) {
  Do(Acquire(kHolder, false));
  Do(Acquire(kWaiter, true));
  const std::string in_time = Encoded(GetParam().command(Token()));
  if (!GetParam().frees) Run(MakeCommand({"DEL", "dl:{default/k}:h"}));
  model_.SetClock(model_.now_us() + milliseconds(1'900) / microseconds(1));
  Run(in_time);
  EXPECT_EQ(HasIt(kWaiter), GetParam().hands_on) << "who waits is the next";
}

TEST_P(LateCommands, OfAnEarlierHoldOffLetNobodyIn) {
  Do(Acquire(kHolder, false));
  Do(Acquire(kWaiter, true));
  Know(kNow.us);
  ASSERT_TRUE(codec_.holds_off());
  const std::string late = Encoded(GetParam().command(Token()));
  if (!GetParam().frees) Run(MakeCommand({"DEL", "dl:{default/k}:h"}));
  model_.SetClock(model_.now_us() + kMostLate / microseconds(1));
  Run(late);
  EXPECT_TRUE(IsFree());
  EXPECT_EQ(Waiting(), 1u) << "who waits goes on waiting";
}

INSTANTIATE_TEST_SUITE_P(All, LateCommands, testing::ValuesIn(Cases()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(LateKnowledge, ADowngradeLetsNoReaderIn) {
  Do(Acquire(kHolder, false));
  Do(Acquire(kReader, true, core::Mode::kShared));
  const std::string late = Encoded(core::StoreDowngrade{.name = TheLock(), .owner = kHolder, .token = Token()});
  model_.SetClock(model_.now_us() + kMostLate / microseconds(1));
  Run(late);
  EXPECT_EQ(Waiting(), 1u);
  EXPECT_FALSE(IsFree() || HasIt(kHolder)) << "it is SHARED, by its former holder";
}

TEST_F(LateKnowledge, ABatchLetsNobodyIn) {
  Do(Acquire(kHolder, false));
  Do(Acquire(kWaiter, true));
  core::StoreAcquire other = Acquire(kHolder, false);
  other.name = core::LockName::Encode("default", "other");
  const std::string late =
      codec_.EncodeBatch({core::StoreRelease{.name = TheLock(), .owner = kHolder, .token = Token()}, other}).bytes;
  model_.SetClock(model_.now_us() + kMostLate / microseconds(1));
  const ReplyPtr reply = Run(late);
  EXPECT_TRUE(IsFree()) << "the release has run";
  EXPECT_EQ(Waiting(), 1u);
  EXPECT_FALSE(model_.String("dl:{default/other}:h"));
  ASSERT_EQ(reply->elements, 3u);
}

TEST_F(LateKnowledge, WithoutHoldOffsNoCallIsLate) {
  codec_.Obey(nullptr, nullptr);
  Do(Acquire(kHolder, false));
  Do(Acquire(kWaiter, true));
  const std::string late = Encoded(core::StoreRelease{.name = TheLock(), .owner = kHolder, .token = Token()});
  model_.SetClock(model_.now_us() + kMostLate / microseconds(1));
  Run(late);
  EXPECT_TRUE(HasIt(kWaiter));
}

}  // namespace
}  // namespace distlock::store::late_knowledge
