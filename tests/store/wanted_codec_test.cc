// SPDX-License-Identifier: Apache-2.0
//
// The command, the answer and the notice that say that somebody wants a lock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parse_reply.h"
#include "redis/known_clock.h"
#include "store/redis/codec.h"
#include "store/redis/resp.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

constexpr char kHolderHex[] = "0102030405060708090a0b0c0d0e0f10";

Codec CodecOfABroker() {
  LockOptions options;
  options.broker_id = "00000000000000b1";
  return Codec(options, sim::KnownClock());
}

std::vector<std::string> ArgvOf(const core::StoreCommand& command) {
  const ReplyPtr argv = Parse(CodecOfABroker().Encode(command).bytes);
  std::vector<std::string> args;
  for (size_t i = 7; i < argv->elements; ++i) args.emplace_back(Text(*argv->element[i]));  // behind the keys
  return args;
}

Decoded DecodeWanted(const std::string& bytes) {
  const ReplyPtr reply = Parse(bytes);
  return CodecOfABroker().Decode({core::Verb::kWanted, 7, 0}, *reply);
}

TEST(WantedCodec, TheCommandNamesTheGrantAndTheBroker) {
  const core::OwnerId owner = *ParseOwner(kHolderHex);
  core::StoreWanted wanted{.op = 7, .name = core::LockName::Encode("ns", "k"), .owner = owner, .token = 42};
  EXPECT_THAT(ArgvOf(wanted), testing::ElementsAre(kHolderHex, "42", "00000000000000b1", "00000000000000b1"));
  wanted.through = 0xfedcba9876543210;
  EXPECT_THAT(ArgvOf(wanted), testing::ElementsAre(kHolderHex, "42", "fedcba9876543210", "00000000000000b1"));
}

TEST(WantedCodec, AnAcquireSaysIfItsHolderIsTold) {
  core::StoreAcquire acquire{.op = 7, .name = core::LockName::Encode("ns", "k"), .info = "i"};
  acquire.max_hold = std::chrono::seconds(9);
  EXPECT_THAT(ArgvOf(acquire), testing::Contains("h9000;i"));
  acquire.tell_wanted = true;
  EXPECT_THAT(ArgvOf(acquire), testing::Contains("h9000;w00000000000000b1;i"));
  EXPECT_THAT(CodecOfABroker().EncodeBatch({acquire}).bytes, testing::HasSubstr(";h9000;w00000000000000b1;i"));
}

TEST(WantedCodec, Answers) {
  const auto held = DecodeWanted("*3\r\n:16\r\n$1\r\n5\r\n:3\r\n");
  ASSERT_TRUE(std::holds_alternative<core::WantedDone>(held.reply.outcome));
  EXPECT_TRUE(std::get<core::WantedDone>(held.reply.outcome).is_held);
  EXPECT_EQ(std::get<core::WantedDone>(held.reply.outcome).queue_length, 3u);
  for (const char* over : {"*2\r\n:8\r\n$1\r\n5\r\n", "*2\r\n:10\r\n$1\r\n5\r\n"}) {
    const auto done = DecodeWanted(over);
    ASSERT_TRUE(std::holds_alternative<core::WantedDone>(done.reply.outcome)) << over;
    EXPECT_FALSE(std::get<core::WantedDone>(done.reply.outcome).is_held);
  }
  for (const char* bad : {"*2\r\n:16\r\n$1\r\n5\r\n", "*3\r\n:16\r\n$1\r\n5\r\n:-1\r\n",
                          "*3\r\n:8\r\n$1\r\n5\r\n:0\r\n", "*3\r\n:1\r\n$1\r\n5\r\n:3\r\n"}) {
    EXPECT_TRUE(DecodeWanted(bad).malformed) << bad;
  }
}

TEST(WantedCodec, Notice) {
  const auto input = Codec::DecodeNotice(Cat("ns/a\nwanted;", kHolderHex, ";43"));
  ASSERT_TRUE(input && std::holds_alternative<core::WantedNotice>(*input));
  const auto& wanted = std::get<core::WantedNotice>(*input);
  EXPECT_EQ(wanted.name, core::LockName::Encode("ns", "a"));
  EXPECT_EQ(wanted.owner, *ParseOwner(kHolderHex));
  EXPECT_EQ(wanted.token, 43u);
  for (const std::string& bad :
       {std::string("ns/a\nwanted;"), std::string("ns/a\nwanted;ab;1"), Cat("ns/a\nwanted;", kHolderHex),
        Cat("ns/a\nwanted;", kHolderHex, ";0"), Cat("ns/a\nwanted;", kHolderHex, ";x"),
        Cat("ns/a\nwanted;", kHolderHex, ";1;2"), Cat("wanted;", kHolderHex, ";43")}) {
    EXPECT_FALSE(Codec::DecodeNotice(bad)) << bad;
  }
}

}  // namespace
}  // namespace distlock::store
