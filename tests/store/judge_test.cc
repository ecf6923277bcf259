// SPDX-License-Identifier: Apache-2.0
//
// The judge of votes, as tables: what each of three or five servers says of a candidate, and what follows from it.
#include "store/redlock/ballot/judge.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace distlock::store::ballot {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Kind = Verdict::Kind;
using Answer = VoteAtServer::Answer;

constexpr Instant kNow{seconds(1000)};
constexpr Place kMine = 500;

OwnerId Owner(uint8_t n) { return {n}; }

// One server's word. Voted(900) is a vote under token 900 that began now.
VoteAtServer Voted(uint64_t token, Duration age = {}) {
  VoteAtServer at_node;
  at_node.token = token;
  at_node.from = kNow - age;
  at_node.is_fresh = true;
  at_node.answer = Answer::kVoted;
  return at_node;
}
// The same, and the server was asked to confirm it under a later token, without an answer so far.
VoteAtServer Raised(uint64_t token, uint64_t raised) {
  VoteAtServer at_node = Voted(token);
  at_node.raised = raised;
  return at_node;
}
// As Voted, from before the server counted.
VoteAtServer Stale(uint64_t token) {
  VoteAtServer at_node = Voted(token);
  at_node.is_fresh = false;
  return at_node;
}
// It waits behind the holder n, whose place is that.
VoteAtServer Behind(uint8_t n, Place place, bool shares = false) {
  VoteAtServer at_node;
  at_node.answer = Answer::kNotVoted;
  at_node.queued = true;
  at_node.shares = shares;
  Rival rival;
  rival.view.owner = Owner(n);
  rival.place = place;
  at_node.rivals.push_back(rival);
  return at_node;
}
VoteAtServer InLine() {
  VoteAtServer at_node = Behind(9, 0);
  at_node.rivals.clear();
  return at_node;
}
VoteAtServer Asked() {
  VoteAtServer at_node;
  at_node.answer = Answer::kAsked;
  return at_node;
}
VoteAtServer Silent() {
  VoteAtServer at_node;
  at_node.answer = Answer::kFailed;
  return at_node;
}

struct Case {
  const char* what;
  std::vector<VoteAtServer> at;
  Kind kind;
  uint64_t token = 0;
  bool waits = true;
  bool shares = false;
  bool asked_now = false;  // the core waits for an answer
  bool patient = true;     // the round is young
  uint32_t counts = 0xff;
  int splits = 0;
  uint64_t told_token = 0;
};

Verdict JudgeCase(const Case& one) {
  Candidate candidate;
  candidate.spec.owner = Owner(1);
  candidate.spec.place = kMine;
  candidate.spec.ttl = seconds(15);
  candidate.spec.want.mode = one.shares ? core::Mode::kShared : core::Mode::kExclusive;
  candidate.waits = one.waits;
  candidate.splits = one.splits;
  candidate.token = one.told_token;
  if (one.asked_now) candidate.unanswered.push_back({1, kNow - milliseconds(1)});
  candidate.at.assign(one.at.begin(), one.at.end());
  const size_t nodes = one.at.size();
  const uint32_t all = (1U << nodes) - 1;
  return Judge(candidate, {.nodes = nodes,
                           .quorum = nodes / 2 + 1,
                           .up = all,
                           .counts = one.counts & all,
                           .now = kNow,
                           .patience = one.patient ? kNow + milliseconds(5) : kNow,
                           .silence = one.patient ? kNow + milliseconds(200) : kNow,
                           .margin = milliseconds(17),
                           .enough = seconds(3),
                           .proposal = 2000});
}

void Check(const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const Verdict verdict = JudgeCase(one);
    EXPECT_EQ(static_cast<int>(verdict.kind), static_cast<int>(one.kind));
    if (one.token != 0) {
      EXPECT_EQ(verdict.token, one.token);
    }
  }
}

TEST(Judge, J1GrantsAQuorumOfYoungVotesUnderOneToken) {
  Check({
      {"two of three", {Voted(900), Voted(900), Asked()}, Kind::kGrant, 900},
      {"one of three", {Voted(900), Asked(), Asked()}, Kind::kAwait},
      {"three of five", {Voted(900), Silent(), Voted(900), Silent(), Voted(900)}, Kind::kGrant, 900},
      {"two of five", {Voted(900), Voted(900), Asked(), Asked(), Asked()}, Kind::kAwait},
      {"another token besides", {Voted(900), Voted(901), Voted(900)}, Kind::kGrant, 900},
      {"a single try", {Voted(900), Voted(900), Silent()}, Kind::kGrant, 900, false, false, true},
      {"a rival at the third server does not matter", {Voted(900), Voted(900), Behind(2, 1)}, Kind::kGrant, 900},
  });
}

TEST(Judge, J1BelievesFromTheVoteThatCompletesTheQuorum) {
  const Verdict verdict =
      JudgeCase({"", {Voted(900, seconds(1)), Voted(900, seconds(2)), Voted(900, seconds(3))}, Kind::kGrant});
  EXPECT_EQ(verdict.kind, Kind::kGrant);
  EXPECT_EQ(verdict.from, kNow - seconds(2));
}

TEST(Judge, VotesOfServersThatDoNotCountAreNone) {
  Check({
      {"one of two does not count",
       {Voted(900), Voted(900), InLine()},
       Kind::kKeep,
       0,
       true,
       false,
       false,
       false,
       0b101},
      {"the third makes up for it",
       {Voted(900), Voted(900), Voted(900)},
       Kind::kGrant,
       900,
       true,
       false,
       false,
       true,
       0b101},
      {"it counts since, and its vote is from before: the token is to be a new one",
       {Voted(900), Stale(900), Silent()},
       Kind::kConfirm,
       2000},
  });
}

TEST(Judge, AVoteThatMayHaveBeenRaisedIsNoneUnderItsOldToken) {
  Check({
      {"it may be under the later token by now", {Raised(900, 950), Raised(900, 950), Silent()}, Kind::kConfirm, 950},
      {"one of two may be", {Voted(900), Raised(900, 950), Silent()}, Kind::kConfirm, 950},
      {"enough others are under the old one", {Voted(900), Raised(900, 950), Voted(900)}, Kind::kGrant, 900},
      {"it is", {Raised(950, 950), Raised(950, 950), Silent()}, Kind::kGrant, 950},
  });
}

TEST(Judge, J2HasTheGreatestTokenConfirmed) {
  Check({
      {"two tokens", {Voted(900), Voted(902), Silent()}, Kind::kConfirm, 902},
      {"at once, whoever else is asked", {Voted(900), Voted(902), Asked()}, Kind::kConfirm, 902},
      {"too old to leave enough belief",
       {Voted(900, seconds(13)), Voted(900, seconds(13)), Silent()},
       Kind::kConfirm,
       900},
      {"older than the question",
       {Voted(900, seconds(1)), Voted(900, seconds(1)), Silent()},
       Kind::kConfirm,
       900,
       true,
       false,
       true},
      {"older than the question, and asked again",
       {Voted(900, seconds(1)), Voted(900, seconds(1)), Asked()},
       Kind::kAwait,
       0,
       true,
       false,
       true},
      {"the core was told 900: the third may have it",
       {Voted(900), Voted(902), Asked()},
       Kind::kAwait,
       0,
       true,
       false,
       false,
       true,
       0xff,
       0,
       900},
      {"the core was told 900, and asks again",
       {Voted(900, seconds(1)), Voted(900, seconds(1)), Voted(902)},
       Kind::kConfirm,
       900,
       true,
       false,
       true,
       true,
       0xff,
       0,
       900},
      {"the core was told 900, which one server only has",
       {Voted(900), Voted(902), Silent()},
       Kind::kConfirm,
       902,
       true,
       false,
       true,
       true,
       0xff,
       0,
       900},
  });
}

TEST(Judge, J3YieldsToWhoeverCameEarlierOrHasAQuorum) {
  Check({
      {"an earlier rival", {Voted(900), Behind(2, 400), InLine()}, Kind::kYield},
      {"a later rival", {Voted(900), Behind(2, 600), InLine()}, Kind::kKeep},
      {"a later rival with a quorum", {Voted(900), Behind(2, 600), Behind(2, 600)}, Kind::kYield},
      {"two later rivals", {Voted(900), Behind(2, 600), Behind(3, 601)}, Kind::kKeep},
      {"of equal places the smaller owner is first", {Voted(900), Behind(0xf2, kMine), InLine()}, Kind::kKeep},
      {"a block at one server is nobody's place", {Voted(900), Behind(0, kFirstPlace), InLine()}, Kind::kKeep},
      {"a block at a quorum", {Voted(900), Behind(0, 0), Behind(0, 0)}, Kind::kYield},
      {"not before all have answered", {Voted(900), Behind(2, 400), Asked()}, Kind::kAwait},
      {"but with a quorum of answers not later than patience lasts",
       {Voted(900), Behind(2, 400), Asked()},
       Kind::kYield,
       0,
       true,
       false,
       false,
       false},
      {"no votes, nothing to yield", {Behind(2, 400), Behind(2, 400), InLine()}, Kind::kWaitForTurn},
  });
}

TEST(Judge, AReaderYieldsToAWriterWhoWaitsBeforeIt) {
  const auto behind_writer = [] {
    VoteAtServer at_node = Behind(2, 1, /*shares=*/true);
    at_node.position = 1;
    return at_node;
  };
  Check({
      {"two of three have readers, and a writer in front",
       {Voted(900), behind_writer(), behind_writer()},
       Kind::kYield,
       0,
       true,
       /*shares=*/true,
       false,
       /*patient=*/false},
      {"a writer is judged by who holds",
       {Voted(900), behind_writer(), behind_writer()},
       Kind::kYield,
       0,
       true,
       false,
       false,
       false},
      {"with a quorum there is nothing to yield",
       {Voted(900), Voted(900), behind_writer()},
       Kind::kGrant,
       900,
       true,
       true,
       false,
       false},
  });
}

TEST(Judge, ReadersDoNotStandAgainstEachOther) {
  Check({
      {"an earlier reader", {Voted(900), Behind(2, 400, true), InLine()}, Kind::kKeep, 0, true, true},
      {"an earlier writer", {Voted(900), Behind(2, 400, false), InLine()}, Kind::kYield, 0, true, true},
      {"a writer and an earlier reader", {Voted(900), Behind(2, 400, true), InLine()}, Kind::kYield},
  });
}

TEST(Judge, ASingleTryIsHeldSplitOrWithoutAQuorum) {
  const auto held = [](uint8_t n) {
    VoteAtServer at_node = Behind(n, 1);
    at_node.queued = false;
    return at_node;
  };
  const auto waited_for = [&] {
    VoteAtServer at_node = held(2);
    at_node.rivals.clear();
    return at_node;
  };
  Check({
      {"a holder with a quorum, at once", {held(2), held(2), Asked()}, Kind::kRefuse, 0, false, false, true},
      {"split", {Voted(900), held(2), held(3)}, Kind::kSplit, 0, false, false, true},
      {"split for the last time",
       {Voted(900), held(2), held(3)},
       Kind::kRefuse,
       0,
       false,
       false,
       true,
       true,
       0xff,
       kSplitRetries},
      {"others wait for it", {waited_for(), waited_for(), Voted(900)}, Kind::kRefuse, 0, false, false, true},
      {"a majority is silent", {Voted(900), Silent(), Silent()}, Kind::kNoQuorum, 0, false, false, true},
      {"too few count yet", {Voted(900), Voted(900), Voted(900)}, Kind::kRefuse, 0, false, false, true, true, 0b001},
  });
}

TEST(Judge, WhatMostServersRefuseIsRefused) {
  VoteAtServer full;
  full.answer = Answer::kRefused;
  full.refusal = core::AcquireQueueFull{7};
  Check({
      {"one of three", {full, Voted(900), Voted(900)}, Kind::kGrant, 900, true, false, true},
      {"two of three", {full, full, Asked()}, Kind::kFail, 0, true, false, true},
  });
}

TEST(Judge, HasAPlaceOnceAQuorumKnowsItAndNoneElectsIt) {
  const auto has_place = [](std::vector<VoteAtServer> at, bool patient = true) {
    Candidate candidate;
    candidate.waits = true;
    candidate.at.assign(at.begin(), at.end());
    return HasPlace(candidate, {.nodes = 3,
                                .quorum = 2,
                                .now = kNow,
                                .patience = patient ? kNow + milliseconds(5) : kNow,
                                .silence = kNow + milliseconds(200)});
  };
  EXPECT_TRUE(has_place({InLine(), InLine(), Asked()}));
  EXPECT_FALSE(has_place({InLine(), Asked(), Asked()}));
  EXPECT_FALSE(has_place({InLine(), Voted(900), Asked()})) << "the third may elect it";
  EXPECT_TRUE(has_place({InLine(), Voted(900), Asked()}, false));
  EXPECT_FALSE(has_place({InLine(), Silent(), Silent()}));
}

}  // namespace
}  // namespace distlock::store::ballot
