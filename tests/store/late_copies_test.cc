// SPDX-License-Identifier: Apache-2.0
//
// A connection that was given up delivers a command late, beside whatever the next connection carries: the owner's
// first grant or place is over, and it has its second one. Each command that a broker sends leaves that alone.
#include "late_copies.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "redis/known_clock.h"
#include "redis/redis_model.h"
#include "store/redis/codec.h"
#include "store/redis/resp.h"
#include "store/redis/script_caller.h"
#include "store/redis/wire_value.h"
#include "store/redlock/vote_codec.h"
#include "store/text.h"

namespace distlock::store::late_copies {
namespace {

// As one of several servers gets them.
using PlainTypes = std::variant<core::StoreTend, core::StoreRenew, core::StoreWatch, core::StoreDowngrade,
                                core::StoreForce, core::StoreAdopt, core::StoreWanted>;

// ---- Which scripts run late.

using Scripts = std::set<std::string_view>;

// Those that are about servers, or change nothing, are tried in tests/lua/test_late_copies.py.
const Scripts kNotOfLocks{"census", "inspect", "probe", "redlock_member", "schema"};

Scripts OfLocks(const std::vector<const lua::ScriptSource*>& all) {
  Scripts found;
  for (const lua::ScriptSource* script : all) {
    if (!kNotOfLocks.contains(script->name)) found.insert(script->name);
  }
  return found;
}

std::string_view ScriptOf(const std::string& copy) {
  std::string_view bytes = copy;
  const std::string_view sha1 = sim::ParseCommand(bytes).at(1);
  for (const auto* all : {&AllScripts(), &RedlockScripts()}) {
    for (const lua::ScriptSource* script : *all) {
      if (script->sha1 == sha1) return script->name;
    }
  }
  return "";
}

class LateCopies : public testing::Test {
 protected:
  using Copies = std::vector<std::string>;

  LateCopies() {
    for (const lua::ScriptSource* script : AllScripts()) Run(LoadCommand(*script));
    for (const lua::ScriptSource* script : RedlockScripts()) Run(LoadCommand(*script));
  }

  static LockOptions Options() { return {.broker_id = "00000000000000b1"}; }
  core::Instant Now() const { return core::Instant(microseconds(model_.now_us())); }
  ReplyPtr Run(std::string_view bytes) { return model_.Execute(1, sim::ParseCommand(bytes)); }
  void Do(const core::StoreCommand& command) { Run(codec_.Encode(command).bytes); }
  void Vote(const ballot::NodeCommand& command) { Run(votes_.Encode(command, sim::KnownClock(), true).bytes); }

  // The token that the owner has.
  uint64_t Token(const OwnerId& owner) {
    const auto value = model_.String("dl:{default/k}:h");
    const std::string begin = Cat("1;", HexOfOwner(owner), ";");
    if (!value || !value->starts_with(begin)) return 0;
    return std::strtoull(std::string(value->substr(begin.size())).c_str(), nullptr, 10);
  }
  std::string Shown() {
    std::string text(model_.String("dl:{default/k}:h").value_or("nobody"));
    for (const auto& [member, place] : model_.Zset("dl:{default/k}:q")) Append(text, " ", member, "@", Cat(place));
    return text;
  }

  template <typename Command, typename Encode>
  static void AddCopies(const Had& had, Copies& all, const Encode& encode) {
    for (const Command& one : CopiesOf<Command>(had)) all.push_back(encode(one));
  }
  template <size_t... I>
  Copies CopiesForOne(const Had& had, std::index_sequence<I...>) {
    Copies all;
    const auto encode = [this](const core::StoreCommand& one) { return codec_.Encode(one).bytes; };
    (AddCopies<std::variant_alternative_t<I, core::StoreCommand>>(had, all, encode), ...);
    // For an item of a batch, too.
    for (const auto& one : CopiesOf<core::StoreAcquire>(had)) all.push_back(codec_.EncodeBatch({one}).bytes);
    for (const auto& one : CopiesOf<core::StoreRelease>(had)) {
      if (one.block == Duration::zero() && !one.ends_min_hold) all.push_back(codec_.EncodeBatch({one}).bytes);
    }
    return all;
  }
  template <size_t... I>
  Copies CopiesForSeveral(const Had& had, std::index_sequence<I...>) {
    Copies all;
    const auto encode = [this](const ballot::NodeCommand& one) {
      return votes_.Encode(one, sim::KnownClock(), true).bytes;
    };
    (AddCopies<std::variant_alternative_t<I, ballot::NodeCommand>>(had, all, encode), ...);
    return all;
  }
  template <size_t... I>
  Copies PlainCopies(const Had& had, std::index_sequence<I...>) {
    Copies all;
    for (const uint64_t least_token : {int64_t{0}, kStart}) {
      const auto encode = [&](const core::StoreCommand& one) { return codec_.Encode(one, least_token).bytes; };
      (AddCopies<std::variant_alternative_t<I, PlainTypes>>(had, all, encode), ...);
    }
    return all;
  }
  Copies ForOne(const Had& had) {
    return CopiesForOne(had, std::make_index_sequence<std::variant_size_v<core::StoreCommand>>());
  }
  Copies ForSeveral(const Had& had) {
    static_assert(
        std::is_same_v<std::variant_alternative_t<std::variant_size_v<ballot::NodeCommand> - 1, ballot::NodeCommand>,
                       ballot::Plain>);
    Copies all = CopiesForSeveral(had, std::make_index_sequence<std::variant_size_v<ballot::NodeCommand> - 1>());
    for (std::string& copy : PlainCopies(had, std::make_index_sequence<std::variant_size_v<PlainTypes>>())) {
      all.push_back(std::move(copy));
    }
    return all;
  }

  void ExpectNoChange(const Copies& copies, const OwnerId& owner, bool waits) {
    const std::string before = Shown();
    EXPECT_TRUE(before.find(HexOfOwner(owner)) != std::string::npos) << before;
    EXPECT_EQ(Token(owner) == 0, waits) << before;
    for (const std::string& copy : copies) {
      late_.insert(ScriptOf(copy));
      const ReplyPtr reply = Run(copy);
      EXPECT_EQ(Shown(), before) << copy;
      EXPECT_FALSE(IsError(*reply)) << copy << Text(*reply);
    }
  }

  core::StoreAcquire Acquire(const OwnerId& owner, bool wait = false) {
    return {.name = TheLock(), .owner = owner, .ttl = seconds(60), .wait = wait, .info = "i"};
  }
  ballot::AskVote Ask(const OwnerId& owner, Place place, bool wait = false) {
    return {.spec = SpecOf({.owner = owner}, place),
            .wait = wait,
            .least_token = static_cast<uint64_t>(model_.now_us()),
            .marks = Marks::Of(MarkOf(place))};
  }

  sim::RedisModel model_{kStart};
  Codec codec_{Options(), sim::KnownClock()};
  VoteCodec votes_{Options()};
  Scripts late_;  // of which a copy has run
};

TEST_F(LateCopies, OfOneServerLeaveTheNextGrantAlone) {
  const OwnerId owner = OwnerOf(0xff, 1);
  Do(Acquire(owner));
  const Had had{owner, Token(owner), Now() + milliseconds(2500)};
  const Copies copies = ForOne(had);
  Do(core::StoreRelease{.name = TheLock(), .owner = owner, .token = had.token});
  model_.Advance(model_.now_us() + 1000);
  Do(Acquire(owner));
  model_.Advance(model_.now_us() + kMostLate / microseconds(1));
  ExpectNoChange(copies, owner, /*waits=*/false);
  EXPECT_EQ(late_, OfLocks(AllScripts()));
}

TEST_F(LateCopies, OfOneServerLeaveTheNextPlaceAlone) {
  const OwnerId owner = OwnerOf(0xff, 1);
  Do(Acquire(OwnerOf(0, 9)));
  Do(Acquire(owner, /*wait=*/true));
  const Copies copies = ForOne({owner, 0, Now() + milliseconds(2500)});
  Do(core::StoreWithdraw{.name = TheLock(), .owner = owner});
  Do(Acquire(owner, /*wait=*/true));
  model_.Advance(model_.now_us() + kMostLate / microseconds(1));
  ExpectNoChange(copies, owner, /*waits=*/true);
}

// Those of several servers need no time: what they name is over.
class LateVotes : public LateCopies, public testing::WithParamInterface<std::pair<uint8_t, Duration>> {};

TEST_P(LateVotes, LeaveTheNextGrantAlone) {
  const auto [kind, late] = GetParam();
  const OwnerId owner = OwnerOf(kind, 1);
  Vote(Ask(owner, kFirst));
  const Had had{owner, Token(owner), Now() + milliseconds(500)};
  const Copies copies = ForSeveral(had);
  Vote(ballot::ReleaseNamed{
      .name = TheLock(), .owner = owner, .marks = Marks::Of(MarkOf(kFirst)), .least_token = kStart});
  model_.Advance(model_.now_us() + 1000);
  Vote(Ask(owner, kSecond));
  model_.Advance(model_.now_us() + late / microseconds(1));
  ExpectNoChange(copies, owner, /*waits=*/false);
  Scripts all = OfLocks(RedlockScripts());
  all.insert({"adopt", "downgrade", "force", "renew", "tend", "wanted", "watch"});
  EXPECT_EQ(late_, all);
}

TEST_P(LateVotes, LeaveTheNextPlaceAlone) {
  const auto [kind, late] = GetParam();
  const OwnerId owner = OwnerOf(kind, 1);
  Vote(Ask(OwnerOf(0, 9), kFirst - 1));
  Vote(Ask(owner, kFirst, /*wait=*/true));
  const Copies copies = ForSeveral({owner, 0, Now() + milliseconds(500)});
  Vote(ballot::ReleaseNamed{
      .name = TheLock(), .owner = owner, .marks = Marks::Of(MarkOf(kFirst)), .least_token = kStart});
  Vote(Ask(owner, kSecond, /*wait=*/true));
  model_.Advance(model_.now_us() + late / microseconds(1));
  ExpectNoChange(copies, owner, /*waits=*/true);
}

INSTANTIATE_TEST_SUITE_P(All, LateVotes,
                         testing::Values(std::pair{uint8_t{0x0a}, milliseconds(300)},
                                         std::pair{uint8_t{0x0a}, kMostLate},
                                         std::pair{uint8_t{0xff}, milliseconds(300)},
                                         std::pair{uint8_t{0xff}, kMostLate}));

// A hold that another candidate of the same owner has found is out of the reach of what the one before may still owe;
// and it is not for the later one to give back.
TEST_F(LateCopies, WhatIsFoundIsNobodysToGiveBack) {
  const OwnerId owner = OwnerOf(0xff, 1);
  Vote(Ask(owner, kFirst));
  const uint64_t token = Token(owner);
  Vote(Ask(owner, kSecond));
  ballot::AskVote takes = Ask(owner, kSecond);
  takes.found = token;
  const std::string before = Shown();
  Vote(takes);
  EXPECT_NE(Shown(), before) << "it has another mark";
  EXPECT_EQ(Token(owner), token);
  const auto owed = [&](Place place) {
    return ballot::ReleaseNamed{
        .name = TheLock(), .owner = owner, .marks = Marks::Of(MarkOf(place)), .least_token = kStart};
  };
  Vote(owed(kFirst));
  Vote(owed(kSecond));
  EXPECT_EQ(Token(owner), token);
  ballot::ReleaseNamed by_its_client = owed(0);
  by_its_client.token = token;
  Vote(by_its_client);
  EXPECT_EQ(Token(owner), 0u);
}

// A request is repeated at two brokers: what the first one owes, whatever places it has asked for before and after,
// leaves alone what the second one was given.
TEST_F(LateCopies, OfOneBrokerLeaveAloneWhatAnotherBrokerWasGiven) {
  const OwnerId owner = OwnerOf(0xff, 1);
  const VoteCodec other{LockOptions{.broker_id = "00000000000000b2"}};
  const auto of_other = [&](const ballot::NodeCommand& command) {
    Run(other.Encode(command, sim::KnownClock(), true).bytes);
  };
  const Marks all{MarkOf(kFirst), MarkOf(kSecond) + 1000};
  of_other(Ask(owner, kSecond));
  const uint64_t token = Token(owner);
  ASSERT_NE(token, 0u);
  Vote(ballot::ReleaseNamed{.name = TheLock(), .owner = owner, .marks = all, .least_token = kStart});
  Vote(ballot::YieldVote{SpecOf({.owner = owner}, kFirst), token, true, kStart, all});
  Vote(ballot::ConfirmVote{TheLock(), owner, all, token + 5, seconds(60)});
  ballot::AskVote asks = Ask(owner, kSecond + 1000);
  asks.marks = all;
  Vote(asks);
  EXPECT_EQ(Token(owner), token);
  of_other(ballot::ReleaseNamed{
      .name = TheLock(), .owner = owner, .marks = Marks::Of(MarkOf(kSecond)), .least_token = kStart});
  EXPECT_EQ(Token(owner), 0u) << "its own broker may";
}

}  // namespace
}  // namespace distlock::store::late_copies
