// SPDX-License-Identifier: Apache-2.0
#include "contract/ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "contract/holder_info.h"
#include "contract/lease_id.h"
#include "contract/utf8.h"
#include "distlock/wire/utf8.h"

namespace distlock::contract {
namespace {

LeaseId Sample() {
  return {.name = core::LockName::Encode("ns", "a/{b}%\n"),
          .owner = {1, 2, 3, 250, 251, 252},
          .ttl = std::chrono::milliseconds(15'001),
          .hold_until = {1'795'233'428'398'271},
          .token = (uint64_t{1} << 53) - 1};
}

TEST(Ids, RandomOwnersDiffer) {
  std::set<core::OwnerId> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(RandomOwnerId()).second);
  EXPECT_EQ(RandomHex(8).size(), 16u);
}

TEST(Ids, TheOwnerOfARequestIdDependsOnBothParts) {
  const auto a = core::LockName::Encode("n", "a");
  const auto b = core::LockName::Encode("n", "b");
  EXPECT_EQ(OwnerIdOf(a, "0123456789abcdef"), OwnerIdOf(a, "0123456789abcdef"));
  EXPECT_NE(OwnerIdOf(a, "0123456789abcdef"), OwnerIdOf(b, "0123456789abcdef"));
  EXPECT_NE(OwnerIdOf(a, "0123456789abcdef"), OwnerIdOf(a, "0123456789abcdeg"));
}

TEST(Ids, TriesOfARequestShareHalfAnOwner) {
  const auto a = core::LockName::Encode("n", "a");
  const auto b = core::LockName::Encode("n", "b");
  const core::OwnerId first = OwnerIdOfTry(a, "0123456789abcdef", 0x1ff);
  const core::OwnerId second = OwnerIdOfTry(a, "0123456789abcdef", 0x1ff);
  EXPECT_TRUE(core::IsTry(first));
  EXPECT_NE(first, second) << "what is done for one must not touch the other";
  EXPECT_TRUE(core::IsSameRequest(first, second));
  EXPECT_FALSE(core::IsSameRequest(first, OwnerIdOfTry(b, "0123456789abcdef", 0x1ff)));
  EXPECT_FALSE(core::IsSameRequest(first, OwnerIdOfTry(a, "0123456789abcdeg", 0x1ff)));
  EXPECT_FALSE(core::IsSameRequest(first, OwnerIdOf(a, "0123456789abcdef"))) << "a detached request is another";
  const core::OwnerId later = OwnerIdOfTry(a, "0123456789abcdef", 0x200);
  EXPECT_TRUE(core::IsSameRequest(first, later));
  EXPECT_LT(std::max(first, second), later) << "also when it is compared as text";
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(core::IsTry(RandomOwnerId()) || core::IsDetached(RandomOwnerId()));
  EXPECT_TRUE(core::IsDetached(DetachedOwnerId()) && !core::IsRepeatable(DetachedOwnerId()));
}

TEST(Ids, OnlyWhatMayWaitUnderARequestHasAPlaceToKeep) {
  core::Acquire acquire{.name = core::LockName::Encode("n", "a")};
  EXPECT_TRUE(core::IsSameRequest(OwnerIdOnStream(acquire, "0123456789abcdef", 1),
                                  OwnerIdOfTry(acquire.name, "0123456789abcdef", 2)));
  EXPECT_FALSE(core::IsTry(OwnerIdOnStream(acquire, "", 1)));
  acquire.max_wait = core::Duration::zero();
  EXPECT_FALSE(core::IsTry(OwnerIdOnStream(acquire, "0123456789abcdef", 1)));
}

TEST(Ids, TriesOfAnAdoptionShareHalfAnOwnerAndAreNumbered) {
  const auto a = core::LockName::Encode("n", "a");
  const auto half = [](const core::OwnerId& owner) { return std::vector(owner.begin(), owner.begin() + 8); };
  AdoptionTries tries, others;
  const core::OwnerId first = OwnerIdOfAdoption(a, "0123456789abcdef", {0x1ff, tries.Next()});
  const core::OwnerId second = OwnerIdOfAdoption(a, "0123456789abcdef", {0x1ff, tries.Next()});
  const core::OwnerId later = OwnerIdOfAdoption(a, "0123456789abcdef", {0x200, others.Next()});
  EXPECT_NE(first, second);
  EXPECT_EQ(half(first), half(later));
  EXPECT_NE(half(first), half(OwnerIdOfAdoption(a, "0123456789abcdeg", {0x1ff, tries.Next()})));
  EXPECT_LT(std::max(first, second), later);
  EXPECT_FALSE(core::IsTry(first) || core::IsDetached(first)) << "a stream has it, and it has no place";
}

// As lua/single/adopt.lua compares them.
TEST(Ids, TheAdoptionsOfASessionAreCountedBehindItsMark) {
  const auto a = core::LockName::Encode("n", "a");
  for (const uint32_t begin : {0u, 0xc0defffeu, 0xffffffffu}) {
    AdoptionTries tries(begin);
    uint32_t last = begin;
    for (int i = 0; i < 3; ++i) {
      const core::OwnerId owner = OwnerIdOfAdoption(a, "0123456789abcdef", {7, tries.Next()});
      const uint32_t mark = owner[12] * 256u + owner[13];
      const uint32_t count = owner[14] * 256u + owner[15];
      EXPECT_EQ(mark, begin >> 16);
      EXPECT_EQ(count, (last + 1) % 65536);
      last = count;
    }
  }
  AdoptionTries mine, others;
  EXPECT_NE(mine.Next(), others.Next()) << "a client that does not count its sessions adopts in each of them";
}

TEST(Ids, HolderIdIsTheHeadOfTheDigest) {
  // printf '\0%.0s' {1..16} | sha256sum
  EXPECT_EQ(HolderIdOf({}), "374708fff7719dd5");
  EXPECT_TRUE(IsBlocked({}));
  EXPECT_FALSE(IsBlocked({1}));
}

TEST(LeaseIds, SurviveTheirText) {
  const LeaseId lease = Sample();
  const std::string text = EncodeLeaseId(lease);
  EXPECT_EQ(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), text.npos);
  EXPECT_EQ(DecodeLeaseId(text), lease);
}

TEST(LeaseIds, EveryChangedCharacterIsNoticed) {
  const std::string text = EncodeLeaseId(Sample());
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'A', 'b', '9', '_', '=', ' ', '\n', '\0', '+'}) {
      std::string mangled = text;
      if (mangled[i] == c) continue;
      mangled[i] = c;
      EXPECT_FALSE(DecodeLeaseId(mangled)) << i << " " << c;
    }
    EXPECT_FALSE(DecodeLeaseId(text.substr(0, i))) << i;
  }
  for (const char* tail : {"=", "==", "A", " ", "\n"}) EXPECT_FALSE(DecodeLeaseId(text + tail));
  EXPECT_FALSE(DecodeLeaseId(" " + text));
  EXPECT_FALSE(DecodeLeaseId(std::string(1 << 20, 'A')));
}

TEST(LeaseIds, NobodysIsNone) {
  LeaseId lease = Sample();
  lease.owner = {};
  EXPECT_FALSE(DecodeLeaseId(EncodeLeaseId(lease))) << "it would end the lock_delay of any lock";
}

TEST(HolderInfo, KeepsPublicFactsOnly) {
  v1::LockSpec spec;
  spec.set_owner("me");
  (*spec.mutable_metadata())["job"] = "7";
  const v1::Holder facts = ParseInfo(MakeInfo(spec, "0011223344556677", 0));
  EXPECT_EQ(facts.owner(), "me");
  EXPECT_EQ(facts.metadata().at("job"), "7");
  EXPECT_EQ(facts.mode(), v1::LOCK_MODE_EXCLUSIVE);
  EXPECT_EQ(facts.broker_id(), "0011223344556677");
  EXPECT_EQ(facts.limit(), 0);
  EXPECT_FALSE(facts.detached());
  spec.set_mode(v1::LOCK_MODE_PERMIT);
  spec.set_limit(4);
  const v1::Holder permits = ParseInfo(MakeInfo(spec, "0011223344556677", 0, "", /*detached=*/true));
  EXPECT_EQ(permits.permits(), 1);
  EXPECT_EQ(permits.limit(), 4);
  EXPECT_TRUE(permits.detached());

  v1::Holder forged;
  forged.set_holder_id("another's");
  forged.set_fencing_token(99);
  const v1::Holder read = ParseInfo(forged.SerializeAsString());
  EXPECT_EQ(read.holder_id(), "");
  EXPECT_EQ(read.fencing_token(), 0);
}

TEST(HolderInfo, GarbageIsEmpty) {
  for (const std::string& garbage : {std::string("\xff\xff\xff"), std::string("\x12\x05"), std::string(5000, '\x0a')}) {
    EXPECT_EQ(ParseInfo(garbage).owner(), "");
    EXPECT_EQ(ParseInfo(garbage).mode(), v1::LOCK_MODE_EXCLUSIVE);
  }
}

TEST(Utf8, CutsBetweenCharacters) {
  EXPECT_EQ(Cut("abcdef", 6), "abcdef");
  EXPECT_EQ(Cut("abcdefg", 6), "abc...");
  EXPECT_EQ(Cut("ab\xe2\x82\xac\xe2\x82\xac", 7), "ab...") << "a character is kept whole or left out";
}

TEST(Utf8, KnowsIt) {
  for (const char* good : {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x94\x92", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(wire::IsUtf8(good)) << good;
    EXPECT_EQ(CleanText(good), good);
  }
  for (const char* bad : {"\x80", "\xc1\x81", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
                          "\xe2\x82", "a\xff"}) {
    EXPECT_FALSE(wire::IsUtf8(bad)) << bad;
    EXPECT_TRUE(wire::IsUtf8(CleanText(bad))) << bad;
  }
  EXPECT_EQ(Shorten("a\xe2\x82\xac\xe2\x82\xac", 5), "a\xe2\x82\xac...");
  EXPECT_EQ(Shorten("line\nbreak", 100), "line\\nbreak");
}

}  // namespace
}  // namespace distlock::contract
