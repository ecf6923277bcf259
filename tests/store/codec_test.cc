// SPDX-License-Identifier: Apache-2.0
#include "store/redis/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "parse_reply.h"
#include "redis/known_clock.h"
#include "store/redis/resp.h"
#include "store/text.h"

namespace distlock::store {
namespace {

using ::testing::ElementsAre;

using Verb = SentCommand::Verb;

constexpr char kOwnerHex[] = "0102030405060708090a0b0c0d0e0f10";

// An array of integers (":5") and strings (all else).
std::string Array(std::initializer_list<std::string_view> parts) {
  std::string out = Cat("*", parts.size(), "\r\n");
  for (const auto part : parts) {
    if (part.starts_with(":")) {
      Append(out, part, "\r\n");
    } else {
      Append(out, "$", part.size(), "\r\n", part, "\r\n");
    }
  }
  return out;
}

Codec MakeCodec() {
  LockOptions options;
  options.broker_id = "00000000000000b1";
  return Codec(options, sim::KnownClock());
}

core::LockName Name() { return core::LockName::Encode("ns", "k"); }

Decoded Decode(Verb verb, const std::string& bytes, size_t items = 0) {
  const ReplyPtr reply = Parse(bytes);
  EXPECT_NE(reply, nullptr) << bytes;
  return MakeCodec().Decode({verb, 7, items}, *reply);
}

template <typename T>
T Expect(const Decoded& decoded) {
  EXPECT_FALSE(decoded.malformed);
  EXPECT_EQ(decoded.reply.op, 7u);
  const T* outcome = std::get_if<T>(&decoded.reply.outcome);
  EXPECT_NE(outcome, nullptr) << decoded.reply.outcome.index();
  return outcome == nullptr ? T{} : *outcome;
}

std::string HolderValue() { return Cat("1;", kOwnerHex, ";42;1000;30000;500;i;n;f"); }

std::vector<std::string> Argv(const core::StoreCommand& command) {
  const ReplyPtr argv = Parse(MakeCodec().Encode(command).bytes);
  std::vector<std::string> args;
  for (size_t i = 0; argv != nullptr && i < argv->elements; ++i) args.emplace_back(Text(*argv->element[i]));
  return args;
}

TEST(CodecEncode, AcquireCarriesEveryArgument) {
  core::StoreAcquire acquire{.op = 9, .name = core::LockName::Encode("ns", "a{b}"), .owner = {0x01, 0xff}};
  acquire.ttl = std::chrono::microseconds(1'500'001);
  acquire.run_before = core::Instant(std::chrono::microseconds(77));
  acquire.wait = true;
  acquire.info = "x\r\ny";
  acquire.want = {.mode = core::Mode::kPermit, .policy = core::Policy::kAdaptive, .permits = 2, .limit = 5};
  const Encoded encoded = MakeCodec().Encode(acquire);
  EXPECT_EQ(encoded.sent.op, 9u);
  EXPECT_EQ(encoded.script, &lua::kAcquire);
  const std::string base = "dl:{ns/a%7Bb%7D}:";
  const std::vector<std::string> expected = {"EVALSHA",
                                             std::string(lua::kAcquire.sha1),
                                             "4",
                                             base + "h",
                                             base + "t",
                                             base + "q",
                                             base + "w",
                                             "01ff0000000000000000000000000000",
                                             "1501",
                                             "0",
                                             "77",
                                             "1",
                                             "00000000000000b1",
                                             "30000",
                                             "x\r\ny",
                                             "86400000",
                                             "1",
                                             "10000",
                                             "p2/5a",
                                             "0",
                                             "100000",
                                             "0"};
  EXPECT_EQ(Argv(acquire), expected);
}

TEST(CodecEncode, AcquireSaysHowTheLockIsWantedAndWhoGoesFirst) {
  const auto words = [](core::Mode mode, core::Policy policy) {
    core::StoreAcquire acquire{.name = core::LockName::Encode("ns", "k"), .want = {.mode = mode, .policy = policy}};
    const auto args = Argv(acquire);
    return args.at(18) + args.at(19);
  };
  using core::Mode;
  using core::Policy;
  EXPECT_EQ(words(Mode::kExclusive, Policy::kFair), "x0");
  EXPECT_EQ(words(Mode::kExclusive, Policy::kWriterPreferring), "x1");
  EXPECT_EQ(words(Mode::kShared, Policy::kWriterPreferring), "s0");
  EXPECT_EQ(words(Mode::kShared, Policy::kReaderPreferring), "s1");
  EXPECT_EQ(words(Mode::kExclusive, Policy::kReaderPreferring), "x0");
  EXPECT_EQ(words(Mode::kShared, Policy::kAdaptive), "sa0");
}

TEST(CodecEncode, RenewAndReleaseNameTheGrantByItsToken) {
  const auto name = core::LockName::Encode("ns", "k");
  const uint64_t big = std::numeric_limits<uint64_t>::max();
  const core::StoreTime end{1'700'000'000'000'000};
  const auto renew =
      Argv(core::StoreRenew{1, {{name, {}, 7, std::chrono::seconds(2), /*ours=*/false, end}, {name, {}, big}}});
  const std::string owner(32, '0');
  EXPECT_THAT(std::vector(renew.begin() + 5, renew.end()),
              ElementsAre("2000", owner + ";7;2000;1700000000000000", owner + ";18446744073709551615;1;-"));
  const auto usual =
      Argv(core::StoreRenew{1, {{name, {}, 7, std::chrono::seconds(2)}, {name, {}, big, std::chrono::seconds(2)}}});
  EXPECT_THAT(std::vector(usual.begin() + 5, usual.end()),
              ElementsAre("2000", "1;" + owner + ";7;", "1;" + owner + ";18446744073709551615;"));
  const auto release = Argv(core::StoreRelease{1, name, {}, 42, std::chrono::seconds(3)});
  ASSERT_EQ(release.size(), 15u);
  EXPECT_EQ(release[8], "42");
  EXPECT_EQ(release[9], "3000");
}

TEST(CodecEncode, TendNamesTheWaitersAskedFor) {
  const auto tend = Argv(core::StoreTend{1, core::LockName::Encode("ns", "k"), {{0x01, 0xff}, {0x02}}});
  ASSERT_EQ(tend.size(), 15u);
  EXPECT_EQ(tend[11] + tend[12], "00") << "no hold-off, no least token";
  EXPECT_EQ(tend[13], "01ff0000000000000000000000000000");
}

TEST(CodecEncode, WatchNamesTheBrokerAndItsSlot) {
  const auto watch = Argv(core::StoreWatch{1, core::LockName::Encode("ns", "k")});
  ASSERT_EQ(watch.size(), 11u);
  EXPECT_EQ(watch[7], "100");
  EXPECT_EQ(watch[9].size(), 16u);
  EXPECT_EQ(watch[10], "30000");
}

TEST(CodecDecode, Acquire) {
  const auto granted = Expect<core::AcquireGranted>(Decode(Verb::kAcquire, Array({":1", "5000", "42", "1000"})));
  EXPECT_EQ(granted.token, 42u);
  EXPECT_EQ(granted.since.us, 1000);
  const auto queued = Expect<core::AcquireQueued>(
      Decode(Verb::kAcquire, Array({":2", "5", ":3", ":900", ":4", "41", ":900", HolderValue()})));
  EXPECT_EQ(queued.position, 3u);
  EXPECT_EQ(queued.queue_length, 4u);
  ASSERT_EQ(queued.holders.size(), 1u);
  EXPECT_EQ(queued.holders[0].token, 42u);
  EXPECT_EQ(queued.holders[0].info, "i;n;f");
  EXPECT_EQ(queued.holders[0].time_left, std::chrono::milliseconds(900));
  const auto held = Expect<core::AcquireHeld>(Decode(Verb::kAcquire, Array({":3", "5", ":-2", ":0"})));
  EXPECT_TRUE(held.holders.empty());
  EXPECT_FALSE(held.left);
  const auto many = Expect<core::AcquireHeld>(
      Decode(Verb::kAcquire, Array({":3", "5", ":7", ":0", ":8", HolderValue(), ":9", HolderValue()})));
  EXPECT_EQ(many.holders.size(), 2u);
  EXPECT_EQ(many.left, std::chrono::milliseconds(7));
  const auto mismatch = Expect<core::AcquireMismatch>(Decode(Verb::kAcquire, Array({":14", "5", "p", ":3"})));
  EXPECT_EQ(mismatch.mode, core::Mode::kPermit);
  EXPECT_EQ(mismatch.limit, 3u);
  Expect<core::AcquireLate>(Decode(Verb::kAcquire, Array({":4", "5"})));
  EXPECT_EQ(Expect<core::AcquireQueueFull>(Decode(Verb::kAcquire, Array({":6", "5", ":10000"}))).queue_length, 10000u);
}

TEST(CodecDecode, TimeIsTheStores) {
  EXPECT_EQ(Decode(Verb::kAcquire, Array({":4", "1795222991939244"})).time.us, 1795222991939244);
}

TEST(CodecDecode, ForeignKeyIsAFailureThatNamesTheKey) {
  const auto failed = Expect<core::StoreFailed>(Decode(Verb::kRelease, Array({":5", "5", "dl:{a/b}:q", "hash"})));
  EXPECT_EQ(failed.kind, core::FailureKind::kForeignKey);
  EXPECT_NE(failed.cause.find("dl:{a/b}:q"), std::string::npos);
  EXPECT_NE(failed.cause.find("hash"), std::string::npos);
}

TEST(CodecDecode, Renew) {
  using R = core::RenewResult;
  const auto done = Expect<core::RenewDoneBatch>(Decode(Verb::kRenew, Array({":12", "5", "1023"}), 4));
  EXPECT_EQ(done.results, (std::vector<R>{R::kRenewed, R::kGone, R::kAnothers, R::kMoved}));
  EXPECT_TRUE(Decode(Verb::kRenew, Array({":12", "5", "1"}), 2).malformed);
  EXPECT_TRUE(Decode(Verb::kRenew, Array({":12", "5", "4"}), 1).malformed);
  EXPECT_TRUE(Decode(Verb::kRenew, Array({":12", "5", ":1"}), 1).malformed);
  EXPECT_TRUE(Decode(Verb::kRenew, Array({":12", "5", "1", "x"}), 1).malformed);
}

TEST(CodecDecode, Adopt) {
  const auto done =
      Expect<core::AdoptDone>(Decode(Verb::kAdopt, Array({":17", "5000000", "2000000", "9000", "70", "0", "800"})));
  EXPECT_EQ(done.held_for, std::chrono::seconds(3));
  EXPECT_EQ(done.ttl - done.lock_delay, std::chrono::milliseconds(9000 - 70));
  EXPECT_EQ(Expect<core::AdoptDone>(Decode(Verb::kAdopt, Array({":14", "5", "s", ":0"}))).mode, core::Mode::kShared);
  EXPECT_TRUE(Decode(Verb::kAdopt, Array({":17", "5", "2", "x", "7", "0", "0"})).malformed);
}

TEST(CodecDecode, GiveBack) {
  EXPECT_TRUE(Expect<core::GiveBackDone>(Decode(Verb::kRelease, Array({":7", "5", ""}))).was_holder);
  EXPECT_TRUE(Expect<core::GiveBackDone>(Decode(Verb::kRelease, Array({":7", "5", "look"}))).look);
  EXPECT_TRUE(Expect<core::GiveBackDone>(Decode(Verb::kRelease, Array({":7", "5", "blocked", "70"}))).was_holder);
  const auto next = Expect<core::GiveBackDone>(Decode(
      Verb::kWithdraw, Array({":7", "5", "", kOwnerHex, "43", "5", "2000", "0", kOwnerHex, "44", "5", "2000", "0"})));
  ASSERT_EQ(next.next.size(), 2u);
  EXPECT_EQ(next.next[1].token, 44u);
  EXPECT_EQ(next.next[0].token, 43u);
  EXPECT_EQ(next.next[0].ttl, std::chrono::seconds(2));
  EXPECT_FALSE(Expect<core::GiveBackDone>(Decode(Verb::kRelease, Array({":8", "5"}))).was_holder);
  EXPECT_TRUE(Expect<core::GiveBackDone>(Decode(Verb::kWithdraw, Array({":9", "5", ""}))).was_waiter);
  EXPECT_FALSE(Expect<core::GiveBackDone>(Decode(Verb::kWithdraw, Array({":10", "5"}))).was_waiter);
  EXPECT_TRUE(Decode(Verb::kWithdraw, Array({":8", "5"})).malformed);
  Expect<core::AcquireLate>(Decode(Verb::kWithdraw, Array({":4", "5"})));
  EXPECT_TRUE(Decode(Verb::kRelease, Array({":9", "5", ""})).malformed);
}

TEST(CodecDecode, Tend) {
  const auto tended = Expect<core::TendDone>(
      Decode(Verb::kTend, Array({":11", "9", ":77", ":0", "42", kOwnerHex, "43", "5", "2000", "0"})));
  ASSERT_EQ(tended.holders.size(), 1u);
  EXPECT_EQ(tended.holders[0].time_left, std::chrono::milliseconds(77));
  EXPECT_EQ(tended.holders[0].held_for, std::chrono::microseconds(4));
  EXPECT_EQ(tended.as_of, 43u) << "the holder has a later token than the one that the lock kept";
  const auto more = Expect<core::TendDone>(Decode(Verb::kTend, Array({":11", "5", ":-2", ":1", "42"})));
  EXPECT_EQ(more.as_of, 42u);
  EXPECT_TRUE(more.more);
  EXPECT_TRUE(more.holders.empty());
  EXPECT_TRUE(Expect<core::TendDone>(Decode(Verb::kTend, Array({":10", "5"}))).slot_was_gone);
}

TEST(CodecDecode, WhatIsNoReplyOfOursIsUnknownAndMalformed) {
  const std::string replies[] = {"+OK\r\n",
                                 ":1\r\n",
                                 "$-1\r\n",
                                 "*0\r\n",
                                 "*-1\r\n",
                                 Array({":1"}),
                                 Array({"1", "5", "42", "1000"}),
                                 Array({":1", ":5", "42", "1000"}),
                                 Array({":1", "5", ":42", "1000"}),
                                 Array({":1", "5", "-42", "1000"}),
                                 Array({":1", "5", "0", "1000"}),
                                 Array({":1", "5", "42", "1000", "more"}),
                                 Array({":1", "0", "42", "1000"}),
                                 Array({":2", "5", ":-1", ":900", ":4", "41", ":900", HolderValue()}),
                                 Array({":2", "5", ":3", ":900", ":4", "x", ":900", HolderValue()}),
                                 Array({":3", "5", ":1", ":0", ":1", "2;other;shape"}),
                                 Array({":3", "5", ":1", ":0", ":1"}),
                                 Array({":14", "5", "q", ":0"}),
                                 Array({":99", "5"}),
                                 Array({":7", "5", ""}),
                                 "*2\r\n*0\r\n$1\r\n5\r\n"};
  for (const auto& bytes : replies) {
    const Decoded decoded = Decode(Verb::kAcquire, bytes);
    EXPECT_TRUE(decoded.malformed) << bytes;
    EXPECT_TRUE(std::holds_alternative<core::StoreUnknown>(decoded.reply.outcome)) << bytes;
  }
}

TEST(CodecDecode, ErrorsAreFailedOnlyWhenNothingRan) {
  const auto outcome = [](const std::string& error) {
    return Decode(Verb::kAcquire, Cat("-", error, "\r\n")).reply.outcome;
  };
  const auto full = outcome("OOM command not allowed when used memory > 'maxmemory'. script: ab, on @user_script:1.");
  ASSERT_TRUE(std::holds_alternative<core::StoreFailed>(full));
  EXPECT_EQ(std::get<core::StoreFailed>(full).kind, core::FailureKind::kFull);
  const auto down = outcome("LOADING Redis is loading the dataset in memory");
  ASSERT_TRUE(std::holds_alternative<core::StoreFailed>(down));
  EXPECT_EQ(std::get<core::StoreFailed>(down).kind, core::FailureKind::kUnavailable);
  EXPECT_TRUE(std::holds_alternative<core::StoreUnknown>(outcome("ERR something script: ab, on @user_script:9.")));
}

TEST(CodecDecode, Notice) {
  const auto grant_in = [](std::string_view payload) -> std::optional<core::GrantNotice> {
    const auto input = Codec::DecodeNotice(payload);
    if (!input || !std::holds_alternative<core::GrantNotice>(*input)) return std::nullopt;
    return std::get<core::GrantNotice>(*input);
  };
  const auto notice = grant_in(Cat("ns/a%0Ab\n", kOwnerHex, ";43;5;2000;100"));
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->name, core::LockName::Encode("ns", "a\nb"));
  EXPECT_EQ(notice->token, 43u);
  EXPECT_EQ(notice->ttl, std::chrono::seconds(2));
  const auto block = grant_in("ns/a\n5;1500");
  ASSERT_TRUE(block);
  EXPECT_EQ(block->owner, core::OwnerId{});
  EXPECT_EQ(block->since.us, 5);
  EXPECT_EQ(block->ttl, std::chrono::milliseconds(1500));
  for (const std::string bad :
       {"", "ns/k", "ns/k\n", "ns/k\nx", "nsk\n5", "ns/k\n1;x", "ns/k\n1;2;3", "nsk\n0102;1;1;1;1",
        "ns/k\n0102030405060708090a0b0c0d0e0f10;0;5;1;1", "ns/k\n0102030405060708090a0b0c0d0e0f10;1;5;1",
        "ns/k\n0102030405060708090a0b0c0d0e0f10;1;5;1;x"}) {
    EXPECT_FALSE(Codec::DecodeNotice(bad)) << bad;
  }
}

TEST(CodecDecode, NoticeOfAChange) {
  const auto notice = Codec::DecodeNotice("ns/a\n5");
  ASSERT_TRUE(notice);
  const auto* change = std::get_if<core::ChangeNotice>(&*notice);
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->name, core::LockName::Encode("ns", "a"));
}

TEST(CodecDecode, WatchShowsTheLock) {
  const auto done =
      Expect<core::WatchDone>(Decode(Verb::kWatch, Array({":13", "5", "42", ":1", ":1", ":1", ":900", HolderValue(),
                                                          kOwnerHex, "00000000000000b1;2000;0;s;1795;i"})));
  EXPECT_EQ(done.view.last_token, 42u);
  ASSERT_EQ(done.view.holders.size(), 1u);
  EXPECT_EQ(done.view.holders[0].time_left, std::chrono::milliseconds(900));
  ASSERT_EQ(done.view.waiters.size(), 1u);
  EXPECT_EQ(done.view.waiters[0].since.us, 1795);
}

TEST(CodecDecode, ForceNotice) {
  const auto input = Codec::DecodeNotice(Cat("ns/a\nforce;", kOwnerHex, ";43;a;b\nc"));
  ASSERT_TRUE(input && std::holds_alternative<core::ForceNotice>(*input));
  const auto& force = std::get<core::ForceNotice>(*input);
  EXPECT_EQ(force.name, core::LockName::Encode("ns", "a"));
  EXPECT_EQ(force.owner[0], 1);
  EXPECT_EQ(force.token, 43u);
  EXPECT_EQ(force.reason, "a;b\nc");
  for (const std::string& bad : {std::string("ns/a\nforce;"), Cat("ns/a\nforce;", kOwnerHex),
                                 Cat("ns/a\nforce;", kOwnerHex, ";0;x"), Cat("ns/a\nforce;", kOwnerHex, ";x;x"),
                                 std::string("ns/a\nforce;ab;1;x"), Cat("ns/a\nforce;", kOwnerHex, ";1")}) {
    EXPECT_FALSE(Codec::DecodeNotice(bad)) << bad;
  }
}

TEST(CodecDecode, Inspect) {
  const ReplyPtr reply = Parse(Array({":13", "5", "42", ":3", ":1", ":1", ":900", HolderValue(), kOwnerHex,
                                      "00000000000000b1;2000;0;s;1795;in;fo", "not an owner", "x", kOwnerHex, ""}));
  const auto view = Codec::DecodeInspect(Name(), *reply);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->last_token, 42u);
  EXPECT_EQ(view->queue_length, 3u);
  ASSERT_EQ(view->waiters.size(), 2u);
  EXPECT_EQ(view->waiters[0].info, "in;fo");
  EXPECT_EQ(view->waiters[0].since.us, 1795);
  EXPECT_EQ(view->waiters[1].broker_id, "");
  const ReplyPtr foreign = Parse(Array({":5", "5", "key", "set"}));
  EXPECT_EQ(Codec::DecodeInspect(Name(), *foreign).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Whatever bytes arrive, they decode to something, without a crash, and never to more than they say.
TEST(CodecDecode, SurvivesMutations) {
  const std::string seeds[] = {
      Array({":1", "5000", "42", "1000"}),
      Array({":2", "5", ":3", ":900", ":4", "41", ":900", HolderValue()}),
      Array({":12", "5", ":1", ":0", ":2"}),
      Array({":7", "5", "look", kOwnerHex, "43", "5", "2000", "0"}),
      Array({":11", "5", ":77", ":0", kOwnerHex, "43", "5", "2000", "0"}),
      Array({":13", "5", "42", ":1", ":1", ":1", ":900", HolderValue(), kOwnerHex, "b1;2000;0;x;5;i"}),
      "-ERR x\r\n"};
  std::mt19937 random(20240611);
  const Codec codec = MakeCodec();
  for (int round = 0; round < 50'000; ++round) {
    std::string bytes = seeds[random() % std::size(seeds)];
    for (size_t changes = 1 + random() % 4; changes > 0; --changes) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 3);
          break;
        default:
          bytes.insert(at, 1, ":$*;0-9\r\n"[random() % 9]);
          break;
      }
      if (bytes.empty()) bytes = "x";
    }
    const ReplyPtr reply = Parse(bytes);
    if (reply == nullptr) continue;
    for (const Verb verb : {Verb::kAcquire, Verb::kRenew, Verb::kRelease, Verb::kWithdraw, Verb::kTend, Verb::kWatch}) {
      const Decoded decoded = codec.Decode({verb, 1, 3}, *reply);
      EXPECT_EQ(decoded.reply.op, 1u);
      EXPECT_TRUE(!decoded.malformed || std::holds_alternative<core::StoreUnknown>(decoded.reply.outcome));
    }
    (void)Codec::DecodeInspect(Name(), *reply);
    (void)Codec::DecodeNotice(Text(*reply));
  }
}

}  // namespace
}  // namespace distlock::store
