// SPDX-License-Identifier: Apache-2.0
//
// The map of a Cluster's slots: whom it believes, and how redirects are read.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "parse_reply.h"
#include "store/cluster/cluster_fitness.h"
#include "store/cluster/hash_slot.h"
#include "store/cluster/map_refresh.h"
#include "store/cluster/redirect.h"
#include "store/cluster/slot_map.h"
#include "store/cluster/slots_reply.h"

namespace distlock::store {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = SlotMap::Verdict;

ServerAddress At(const std::string& host, int port = 6379) { return {.host = host, .port = port, .path = {}}; }

SlotsReport::Range Part(Slot first, Slot last, const std::string& host, const std::string& id = "") {
  return {first, last, At(host), id.empty() ? "id-" + host : id, 1};
}

SlotsReport Three() { return {{Part(0, 5460, "a"), Part(5461, 10922, "b"), Part(10923, 16383, "c")}}; }

std::string HostOf(const SlotMap& map, Slot slot) {
  return map.At(slot) == kNoNode ? "" : map.nodes()[map.At(slot)]->address.host;
}

// ---- Slots ----

// The numbers are the specification's and those of CLUSTER KEYSLOT.
TEST(HashSlot, IsTheServers) {
  EXPECT_EQ(SlotOf("123456789"), 12739);
  EXPECT_EQ(SlotOf("foo"), 12182);
  EXPECT_EQ(SlotOf("{foo}.bar"), 12182);
  EXPECT_EQ(SlotOf("x{foo}{bar}"), 12182);
  EXPECT_EQ(SlotOf("{}foo"), SlotOf("{}foo"));
  EXPECT_NE(SlotOf("{}foo"), SlotOf("foo")) << "an empty tag is none";
  EXPECT_EQ(SlotOf("{foo"), SlotOf("{foo"));
  EXPECT_EQ(SlotOf(""), 0);
}

TEST(HashSlot, EachHasATag) {
  for (size_t slot = 0; slot < kSlots; slot += 97) {
    const std::string tag = TagOf(static_cast<Slot>(slot));
    EXPECT_EQ(SlotOf("dl:grant:0123456789abcdef:" + tag), slot) << tag;
    EXPECT_LE(tag.size(), 8u);
  }
}

// ---- Redirects ----

TEST(RedirectTest, ReadsWhatServersSay) {
  const auto moved = ParseRedirect("MOVED 3999 127.0.0.1:6381", At("asked", 1));
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->kind, Redirect::Kind::kMoved);
  EXPECT_EQ(moved->slot, 3999);
  EXPECT_EQ(moved->to, At("127.0.0.1", 6381));
  EXPECT_EQ(ParseRedirect("ASK 1 node-3.example:7000", At("asked"))->kind, Redirect::Kind::kAsk);
  EXPECT_EQ(ParseRedirect("ASK 1 node-3.example:7000", At("asked"))->to, At("node-3.example", 7000));
  EXPECT_EQ(ParseRedirect("MOVED 1 fd00::7:7000", At("asked"))->to, At("fd00::7", 7000));
  EXPECT_EQ(ParseRedirect("MOVED 1 [fd00::7]:7000", At("asked"))->to, At("fd00::7", 7000));
  EXPECT_EQ(ParseRedirect("TRYAGAIN Multiple keys request during rehashing of slot", At("asked"))->kind,
            Redirect::Kind::kTryAgain);
  EXPECT_EQ(ParseRedirect("CLUSTERDOWN Hash slot not served", At("asked"))->kind, Redirect::Kind::kClusterDown);
}

TEST(RedirectTest, AnEmptyHostIsTheOneThatWasAskedAndAQuestionMarkIsNone) {
  EXPECT_EQ(ParseRedirect("MOVED 7 :6381", At("asked", 1))->to, At("asked", 6381));
  const auto unknown = ParseRedirect("MOVED 7 ?:6381", At("asked", 1));
  ASSERT_TRUE(unknown);
  EXPECT_FALSE(unknown->to);
}

TEST(RedirectTest, OtherErrorsAreNone) {
  for (const char* text : {"", "MOVED", "MOVED 1", "MOVED x a:1", "MOVED 16384 a:1", "MOVED -1 a:1", "MOVED 1 a",
                           "MOVED 1 a:", "MOVED 1 a:70000", "CROSSSLOT Keys", "ERR unknown command", "MOVEDX 1 a:1"}) {
    EXPECT_FALSE(ParseRedirect(text, At("asked"))) << text;
  }
}

// ---- CLUSTER SLOTS ----

TEST(SlotsReplyTest, ReadsHostsNullsAndUnknowns) {
  const ReplyPtr reply = Parse(
      "*4\r\n"
      "*4\r\n:0\r\n:99\r\n*3\r\n$1\r\na\r\n:7000\r\n$3\r\nid1\r\n*3\r\n$1\r\nx\r\n:7001\r\n$3\r\nid9\r\n"
      "*3\r\n:100\r\n:199\r\n*4\r\n$-1\r\n:7002\r\n$3\r\nid2\r\n*0\r\n"
      "*3\r\n:200\r\n:299\r\n*3\r\n$1\r\n?\r\n:7003\r\n$3\r\nid3\r\n"
      "*3\r\n:300\r\n:300\r\n*3\r\n$0\r\n\r\n:7004\r\n$3\r\nid4\r\n");
  const auto report = ReadSlots(*reply, At("asked", 1));
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->ranges.size(), 3u) << "the one without a known host is left out";
  EXPECT_EQ(report->ranges[0].primary, At("a", 7000));
  EXPECT_EQ(report->ranges[0].replicas, 1);
  EXPECT_EQ(report->ranges[0].id, "id1");
  EXPECT_EQ(report->ranges[1].primary, At("asked", 7002));
  EXPECT_EQ(report->ranges[1].replicas, 0);
  EXPECT_EQ(report->ranges[2].primary, At("asked", 7004));
}

TEST(SlotsReplyTest, RefusesOtherShapes) {
  for (const char* text : {"+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*2\r\n:0\r\n:9\r\n", "*1\r\n*3\r\n:9\r\n:0\r\n*0\r\n",
                           "*1\r\n*3\r\n:0\r\n:16384\r\n*3\r\n$1\r\na\r\n:1\r\n$1\r\ni\r\n",
                           "*1\r\n*3\r\n:0\r\n:1\r\n*3\r\n$1\r\na\r\n:70000\r\n$1\r\ni\r\n"}) {
    EXPECT_EQ(ReadSlots(*Parse(text), At("asked")).status().code(), absl::StatusCode::kUnavailable) << text;
  }
  const auto single = ReadSlots(*Parse("-ERR This instance has cluster support disabled\r\n"), At("asked"));
  EXPECT_EQ(single.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(single.status().message().find("redis://"), std::string::npos);
  const auto sentinel =
      ReadSlots(*Parse("-ERR unknown command 'CLUSTER', with args beginning with: 'SLOTS' \r\n"), At("asked"));
  EXPECT_EQ(sentinel.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(sentinel.status().message().find("redis+sentinel://"), std::string::npos);
}

// ---- The map ----

TEST(SlotMapTest, AFirstMapIsAdoptedWhateverItCovers) {
  SlotMap map;
  EXPECT_EQ(map.Adopt({}, "a"), Verdict::kEmpty);
  EXPECT_EQ(map.Adopt({{Part(0, 9, "a")}}, "a"), Verdict::kAdopted);
  EXPECT_EQ(HostOf(map, 9), "a");
  EXPECT_EQ(map.At(10), kNoNode);
  EXPECT_EQ(map.covered(), 10u);
}

// Fails when a report of fewer slots is adopted at once: a node that has lost touch would drop all the others.
TEST(SlotMapTest, ANodeThatKnowsOnlyItselfIsNotBelieved) {
  SlotMap map;
  ASSERT_EQ(map.Adopt(Three(), "id-a"), Verdict::kAdopted);
  const SlotsReport alone{{Part(0, 5460, "a")}};
  EXPECT_EQ(map.Adopt(alone, "id-a"), Verdict::kDoubted);
  EXPECT_EQ(map.Adopt(alone, "id-a"), Verdict::kDoubted) << "to repeat itself confirms nothing";
  EXPECT_EQ(HostOf(map, 16383), "c");
  EXPECT_EQ(map.Adopt(Three(), "id-b"), Verdict::kAdopted);
  EXPECT_EQ(map.Adopt(alone, "id-b"), Verdict::kDoubted) << "a good map in between starts over";
  EXPECT_EQ(map.Adopt(alone, "id-c"), Verdict::kAdopted) << "a second node says the same";
  EXPECT_EQ(map.covered(), 5461u);
}

TEST(SlotMapTest, NineTenthsAreEnough) {
  SlotMap map;
  ASSERT_EQ(map.Adopt({{Part(0, 999, "a")}}, "id-a"), Verdict::kAdopted);
  EXPECT_EQ(map.Adopt({{Part(0, 898, "a")}}, "id-a"), Verdict::kDoubted);
  EXPECT_EQ(map.Adopt({{Part(0, 899, "a")}}, "id-a"), Verdict::kAdopted);
}

TEST(SlotMapTest, MovedIsBelievedForItsSlotAtOnce) {
  SlotMap map;
  map.Adopt(Three(), "id-a");
  EXPECT_EQ(map.Patch(7, At("c")), map.At(16000));
  EXPECT_EQ(HostOf(map, 7), "c");
  EXPECT_EQ(HostOf(map, 8), "a");
  EXPECT_EQ(map.nodes()[map.At(7)]->slots, 5462u);
  EXPECT_EQ(map.nodes()[map.At(7)]->lowest, Slot{7});
  EXPECT_EQ(map.Patch(8, At("new")), map.NodeAt(At("new")));
  EXPECT_EQ(map.covered(), kSlots);
}

TEST(SlotMapTest, ANodeThatMovedKeepsItsNumberById) {
  SlotMap map;
  map.Adopt(Three(), "id-a");
  const NodeNumber b = map.At(6000);
  SlotsReport moved = Three();
  moved.ranges[1].primary = At("elsewhere");
  map.Adopt(moved, "id-a");
  EXPECT_EQ(map.At(6000), b);
  EXPECT_EQ(HostOf(map, 6000), "elsewhere");
}

// MOVED named the address, CLUSTER SLOTS names the host and the id.
TEST(SlotMapTest, ANodeKnownByAnotherNameIsTheMapsOneFromThenOn) {
  SlotMap map;
  map.Adopt(Three(), "id-a");
  const NodeNumber by_address = map.Patch(7, At("10.0.0.3"));
  EXPECT_NE(by_address, map.At(16000));
  SlotsReport after = Three();
  after.ranges.front().first = 8;
  after.ranges.push_back(Part(0, 7, "c"));
  map.Adopt(after, "id-a");
  EXPECT_EQ(map.At(7), map.At(16000));
  EXPECT_EQ(map.nodes()[by_address]->slots, 0u);
  map.Forget(by_address);
  EXPECT_EQ(map.NodeAt(At("new")), by_address) << "numbers are used again";
}

TEST(SlotMapTest, AnotherNodeAtAnOldAddressIsAnother) {
  SlotMap map;
  map.Adopt(Three(), "id-a");
  const NodeNumber a = map.At(0);
  SlotsReport after = Three();
  after.ranges[0].id = "id-other";
  map.Adopt(after, "id-b");
  EXPECT_NE(map.At(0), a);
  EXPECT_EQ(map.nodes()[a]->slots, 0u);
}

// Whatever moves where: each slot is where it was last said to be, and each node has as many as that makes.
TEST(SlotMapTest, IsTheSameAsATableOfAllSlots) {
  constexpr std::array kHosts = {"a", "b", "c"};
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same every time
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 20; ++round) {
    SlotMap map;
    std::vector<std::string> table(kSlots);
    SlotsReport report;
    for (size_t first = below(100); first < kSlots;) {
      const size_t last = std::min(first + below(round < 10 ? 4000 : 40), kSlots - 1);
      const char* const host = kHosts[below(3)];
      report.ranges.push_back(Part(static_cast<Slot>(first), static_cast<Slot>(last), host));
      std::fill(table.begin() + static_cast<int>(first), table.begin() + static_cast<int>(last) + 1, host);
      first = last + 1 + (below(3) == 0 ? below(50) : 0);
    }
    ASSERT_EQ(map.Adopt(report, "id-a"), Verdict::kAdopted);
    for (int moves = 0; moves < 300; ++moves) {
      const size_t slot = below(5) == 0 ? (below(2) == 0 ? 0 : kSlots - 1) : moves % 7 == 0 ? below(kSlots) : below(40);
      const std::string host = kHosts[below(3)];
      const uint64_t before = map.changes();
      map.Patch(static_cast<Slot>(slot), At(host));
      EXPECT_EQ(map.changes() - before, table[slot] == host ? 0u : 1u);
      table[slot] = host;
    }
    for (size_t slot = 0; slot < kSlots; ++slot) {
      const bool known = map.At(static_cast<Slot>(slot)) != kNoNode;
      ASSERT_EQ(known ? HostOf(map, static_cast<Slot>(slot)) : "", table[slot]) << slot;
    }
    for (const char* host : kHosts) {
      const auto& node = *map.nodes()[map.NodeAt(At(host))];
      EXPECT_EQ(node.slots, static_cast<size_t>(std::ranges::count(table, host)));
      const auto first = std::ranges::find(table, host);
      EXPECT_EQ(node.lowest.has_value(), first != table.end());
      if (first == table.end()) continue;
      EXPECT_EQ(*node.lowest, first - table.begin());
      EXPECT_EQ(table[*node.highest], host);
      EXPECT_EQ(std::count(table.begin() + *node.highest + 1, table.end(), host), 0);
    }
  }
}

// ---- When to ask ----

class MapRefreshTest : public testing::Test {
 protected:
  core::Duration Pause() { return refresh_.due() - now_; }
  void Ask(bool adopted, bool unserved = false) {
    now_ = std::max(now_, refresh_.due());
    refresh_.Asked(now_);
    EXPECT_EQ(refresh_.due(), core::kNever) << "one question at a time";
    refresh_.Answered(now_, adopted, unserved);
  }
  core::Instant now_ = core::Instant(seconds(100));
  MapRefresh refresh_{1};
};

TEST_F(MapRefreshTest, EachTenSecondsWhenAllIsWell) {
  EXPECT_LE(refresh_.due(), now_);
  Ask(true);
  EXPECT_EQ(Pause(), MapRefresh::kUsualPause);
}

TEST_F(MapRefreshTest, AStormOfWishesIsOneQuestionPer100Ms) {
  Ask(true);
  for (int i = 0; i < 1000; ++i) refresh_.Want(now_);
  EXPECT_EQ(Pause(), MapRefresh::kLeastPause);
  now_ += seconds(5);
  refresh_.Want(now_);
  EXPECT_LE(refresh_.due(), now_);
}

TEST_F(MapRefreshTest, AWishDuringAQuestionMakesAnother) {
  refresh_.Asked(now_);
  now_ += milliseconds(20);
  refresh_.Want(now_);
  EXPECT_EQ(refresh_.due(), core::kNever);
  refresh_.Answered(now_, true, false);
  EXPECT_EQ(Pause(), milliseconds(80));
}

TEST_F(MapRefreshTest, WhileAPartIsNotServedItAsksAgainAndAgain) {
  const auto ask_for = [this](core::Duration time, core::Duration least, core::Duration most) {
    std::set<core::Duration> pauses;
    for (const core::Instant until = now_ + time; now_ < until;) {
      Ask(true, true);
      EXPECT_GE(Pause(), least);
      EXPECT_LE(Pause(), most);
      pauses.insert(Pause());
    }
    EXPECT_GT(pauses.size(), 10u) << "no jitter";
  };
  // A promotion is noticed at once.
  ask_for(MapRefresh::kSoon - milliseconds(200), milliseconds(100), microseconds(106'250));
  now_ += milliseconds(200);
  ask_for(seconds(30), milliseconds(200), milliseconds(400));
  Ask(true, false);
  EXPECT_EQ(Pause(), MapRefresh::kUsualPause);
  now_ += seconds(1);
  refresh_.Want(now_);
  Ask(true, true);
  EXPECT_LE(Pause(), microseconds(106'250)) << "another time";
}

TEST_F(MapRefreshTest, UselessAnswersBackOffToASecondAndWishesDoNotHurryThem) {
  core::Duration last{};
  for (int i = 0; i < 8; ++i) {
    Ask(false);
    EXPECT_GE(Pause(), last);
    EXPECT_LE(Pause(), seconds(1));
    last = Pause();
    refresh_.Want(now_);
    EXPECT_EQ(Pause(), last);
  }
  EXPECT_EQ(last, seconds(1));
  Ask(true);
  EXPECT_EQ(Pause(), MapRefresh::kUsualPause);
}

// ---- Fitness ----

TEST(ClusterFitnessTest, WarnsOfWhatAFailoverDoes) {
  ClusterReport report{.slots = Three(), .from = "a", .node_timeout = seconds(15), .full_coverage = true};
  auto fitness = JudgeCluster(report, {.usual_ttl = seconds(15)});
  EXPECT_TRUE(fitness.status.ok());
  ASSERT_EQ(fitness.warnings.size(), 2u);
  EXPECT_NE(fitness.warnings[0].find("15000 ms do not survive a failover"), std::string::npos);
  EXPECT_NE(fitness.warnings[0].find("18000 ms"), std::string::npos);
  EXPECT_NE(fitness.warnings[1].find("full-coverage"), std::string::npos);
  report.full_coverage = false;
  EXPECT_TRUE(JudgeCluster(report, {.usual_ttl = seconds(18)}).warnings.empty());
  EXPECT_TRUE(JudgeCluster({.slots = Three()}, {.usual_ttl = seconds(1)}).warnings.empty()) << "it may not ask";
}

TEST(ClusterFitnessTest, EachPrimaryNeedsTheReplicasThatConfirm) {
  ClusterReport report{.slots = Three()};
  EXPECT_TRUE(JudgeCluster(report, {.wait_replicas = 1}).status.ok());
  report.slots.ranges[1].replicas = 0;
  const auto status = JudgeCluster(report, {.wait_replicas = 1}).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("b:6379 has 0"), std::string::npos);
}

}  // namespace
}  // namespace distlock::store
