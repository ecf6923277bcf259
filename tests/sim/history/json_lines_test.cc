// SPDX-License-Identifier: Apache-2.0
#include "history/json_lines.h"

#include <gmock/gmock.h>

#include <sstream>

#include "history/summary.h"
#include "history/violations.h"

namespace distlock::sim {
namespace {

History ReadAll(const std::vector<std::string>& files) {
  HistoryReader reader;
  for (const std::string& text : files) {
    std::istringstream in(text);
    EXPECT_TRUE(reader.Read(in, "file")) << reader.problem();
  }
  return reader.Take();
}

std::string Text(const History& history) {
  std::ostringstream out;
  WriteHistory(history, out);
  return out.str();
}

// Every kind of record, with every field.
HistoryBuilder Everything() {
  HistoryBuilder b;
  const int64_t ann =
      b.Asks(0, "ann", {.ttl = 3000, .max_wait = 70, .lock_delay = 5, .max_hold = 9, .min_hold = 4, .detached = true});
  const int64_t bob = b.Asks(1, "bob", {.lock = "o\"ther", .risky = true, .freed_by_promise = true});
  b.Queued(2, ann, 17);
  b.Unqueued(3, ann);
  b.Took(4, ann, 1792000000000001);
  b.Granted(5, ann, 1792000000000001, 900);
  b.Wrote(6, ann, 1792000000000001, false);
  b.Lost(7, ann, core::LostReason::kTaken);
  b.Freed(8, ann, FreedHow::kForgotten);
  b.Granted(9, bob, 3, 70);
  b.Ended(10, bob);
  b.Released(11, bob);
  b.Refused(12, b.Asks(11, "eve", {.max_wait = 0}), core::RefusalReason::kStoreFull);
  b.GivesUp(14, b.Asks(13, "eve"));
  b.Fault(15, FaultKind::kKeyDeleted, 4, "redis", "k");
  b.Fault(15, FaultKind::kStoreClock, -4, "redis");
  b.Forgot(16, "k");
  b.Forgot(16);
  b.ShowsLock(4, 16, {{ann, 1792000000000001}, {bob, 3}}, 3);
  b.ChecksToken(4, 17, 1792000000000001, true, 1792000000000001);
  b.Lists(4, 18, {1, 0});
  b.Healed(17);
  b.Quiet(18);
  b.Left(18, 2, "keys");
  return b;
}

TEST(JsonLines, KeepEverything) {
  const std::string text = Text(Everything().Make());
  const History back = ReadAll({text});
  EXPECT_EQ(Text(back), text);
  EXPECT_EQ(back.records.size(), Everything().Make().records.size());
  EXPECT_EQ(back.leases.at(0).max_hold_ns, Ms(9));
  EXPECT_EQ(back.leases.at(0).min_hold_ns, Ms(4));
  EXPECT_TRUE(back.leases.at(1).risky);
  EXPECT_EQ(back.slow_ns, Ms(500));
}

TEST(JsonLines, MayComeInAnyOrderAndInManyFiles) {
  const std::string text = Text(Everything().Make());
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line + "\n");
  std::reverse(lines.begin(), lines.end());
  const History back = ReadAll(lines);
  EXPECT_EQ(back.records.size() + back.looks.size(), lines.size() - 1);
  EXPECT_TRUE(std::is_sorted(back.records.begin(), back.records.end(),
                             [](const Record& a, const Record& b) { return a.at_ns < b.at_ns; }));
  EXPECT_EQ(back.records.front().kind, RecordKind::kAsked);
}

TEST(JsonLines, OfOneWhoDiedAreClosed) {
  const History back = ReadAll({R"({"at":1,"kind":"asked","actor":"ann","lock":"k","lease":"1","ttl":5}
{"at":2,"kind":"granted","actor":"ann","lease":"1","token":7}
{"at":3,"kind":"asked","actor":"ann","lock":"k","lease":"2","ttl":5}
{"at":4,"kind":"asked","actor":"bob","lock":"k","lease":"3","ttl":5}
{"at":4,"kind":"asked","actor":"ann","lock":"k","lease":"4","ttl":5}
{"at":5,"kind":"refused","actor":"ann","lease":"4","reason":"LOCK_HELD"}
)",
                                R"({"at":9,"kind":"died","actor":"ann"}
)"});
  ASSERT_EQ(back.records.size(), 8u);
  EXPECT_EQ(back.records[6].kind, RecordKind::kEnded);
  EXPECT_EQ(back.records[6].lease, 0);
  EXPECT_EQ(back.records[6].code, static_cast<uint8_t>(EndedWhy::kClientDied));
  EXPECT_EQ(back.records[7].kind, RecordKind::kGaveUp);
  EXPECT_EQ(back.records[7].lease, 1);
  EXPECT_EQ(back.records[7].lock, 0);
}

TEST(JsonLines, AreTornByAKill) {
  const History back = ReadAll({"{\"at\":16,\"kind\":\"forgot\"}\n{\"at\":17,\"ki"});
  EXPECT_EQ(back.records.size(), 1u);
}

std::string ProblemWith(const std::string& text) {
  HistoryReader reader;
  std::istringstream in(text);
  EXPECT_FALSE(reader.Read(in, "ann.json"));
  return reader.problem();
}

TEST(JsonLines, ThatAreWrongAreNamed) {
  EXPECT_THAT(ProblemWith("\n{\"at\":1,\"ki\n"), ::testing::StartsWith("ann.json:2: "));
  EXPECT_EQ(ProblemWith("{\"at\":1,\"kind\":\"soared\"}\n"), "ann.json:1: kind cannot be soared");
  EXPECT_EQ(ProblemWith("{\"at\":1,\"kind\":\"granted\",\"lease\":\"1\"}\n"), "ann.json:1: has no token");
  EXPECT_EQ(ProblemWith("{\"at\":1,\"kind\":\"asked\",\"lease\":\"1\",\"ttl\":4}\n"), "ann.json:1: has no lock");
  EXPECT_EQ(ProblemWith("{\"at\":1,\"kind\":\"fault\",\"fault\":\"hail\"}\n"), "ann.json:1: fault cannot be hail");
}

TEST(Summary, CountsAndMeasures) {
  HistoryBuilder b;
  const int64_t ann = b.Asks(0, "ann");
  const int64_t bob = b.Asks(10, "bob");
  const int64_t eve = b.Asks(20, "eve");
  b.Holds(100, 200, ann, 1);
  b.Wrote(150, ann, 1);
  b.Wrote(160, ann, 1, false);
  b.Granted(230, bob, 2, 500);
  b.Ended(500, bob, EndedWhy::kDeadline);
  b.Holds(510, 600, eve, 3);
  b.Refused(31, b.Asks(30, "joe", {.max_wait = 0}));
  b.Fault(400, FaultKind::kClientPaused, 200, "bob");
  b.Granted(701, b.Asks(700, "joe"), 4, 800);
  b.Ended(750, 4, EndedWhy::kStreamBroke);
  const Summary summary = Summarize(b.Make());
  EXPECT_EQ(summary.grants, 4);
  EXPECT_EQ(summary.releases, 2);
  EXPECT_EQ(summary.refusals[static_cast<size_t>(core::RefusalReason::kLockHeld)], 1);
  EXPECT_EQ(summary.losses, 2);
  EXPECT_EQ(summary.false_losses, 1);
  EXPECT_EQ(summary.writes, 1);
  EXPECT_EQ(summary.rejected_writes, 1);
  EXPECT_EQ(summary.FaultCount(), 1);
  EXPECT_EQ(summary.margin_min, Ms(10));
  EXPECT_EQ(summary.waits.longest, Ms(490));
  EXPECT_EQ(summary.hand_offs.count, 1);
  EXPECT_EQ(summary.hand_offs.longest, Ms(30));
  EXPECT_EQ(summary.recoveries.longest, Ms(10));
  EXPECT_EQ(summary.lasted, Ms(750));
}

TEST(Summary, ReadersWhoBelieveTogetherHaveNoMargin) {
  const Terms reader{.kind = HoldKind::kShared};
  HistoryBuilder b;
  b.Holds(100, 300, b.Asks(0, "ann", reader), 1);
  b.Holds(200, 400, b.Asks(10, "bob", reader), 2);
  b.Holds(430, 500, b.Asks(20, "eve"), 3);
  EXPECT_EQ(Summarize(b.Make()).margin_min, Ms(30));
}

}  // namespace
}  // namespace distlock::sim
