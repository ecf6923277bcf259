// SPDX-License-Identifier: Apache-2.0
#include "belief.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace distlock::internal {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kV = 3000 * kMs;

TEST(SessionBelief, CountsFromSendingAndOnlyKnowsWhatWasSent) {
  SessionBelief session(100 * kMs, kV);
  EXPECT_EQ(session.DeadlineOf(0, kV), 100 * kMs + kV);
  EXPECT_EQ(session.DeadlineOf(1, kV), 0);
  EXPECT_EQ(session.Send(1100 * kMs), 1);
  EXPECT_EQ(session.DeadlineOf(1, kV), 1100 * kMs + kV);
  for (int i = 0; i < 100; ++i) session.Send((1200 + i) * kMs);
  EXPECT_EQ(session.DeadlineOf(1, kV), 0) << "forgotten";
}

TEST(SessionBelief, AckTable) {
  struct Row {
    const char* name;
    int64_t seq;
    int64_t valid_for;
    int64_t now;
    bool counts;
    int64_t deadline;
  };
  const int64_t opened = kV;
  const Row rows[] = {
      {"next", 1, kV, 1100 * kMs, true, 1000 * kMs + kV},
      {"one left out", 2, kV, 2100 * kMs, true, 2000 * kMs + kV},
      {"repeated", 0, kV, 1100 * kMs, false, opened},
      {"never sent", 3, kV, 2100 * kMs, false, opened},
      {"no number of a heartbeat", -1, kV, 2100 * kMs, false, opened},
      {"the least number", std::numeric_limits<int64_t>::min(), kV, 2100 * kMs, false, opened},
      {"less than before", 1, 100 * kMs, 1100 * kMs, true, opened},
      {"at the deadline", 2, kV, opened, false, opened},
      {"long after it", 2, kV, 9000 * kMs, false, opened},
  };
  for (const Row& row : rows) {
    SessionBelief session(0, 5000 * kMs);
    ASSERT_TRUE(session.Ack(0, kV, 10 * kMs));
    session.Send(1000 * kMs);
    session.Send(2000 * kMs);
    EXPECT_EQ(session.Ack(row.seq, row.valid_for, row.now), row.counts) << row.name;
    EXPECT_EQ(session.deadline_ns(), row.deadline) << row.name;
  }
}

TEST(SessionBelief, LapsesForGood) {
  SessionBelief session(0, kV);
  EXPECT_FALSE(session.Lapsed(kV - 1));
  session.Send(1000 * kMs);
  EXPECT_TRUE(session.Lapsed(kV));
  EXPECT_FALSE(session.Ack(1, kV, kV + 1));
  EXPECT_TRUE(session.Lapsed(0));
}

TEST(SessionBelief, TheGraceOfTheOpenIsNoPromise) {
  SessionBelief session(0, 3'600'000 * kMs);
  ASSERT_TRUE(session.Ack(0, kV, kMs));
  EXPECT_EQ(session.deadline_ns(), kV);
}

TEST(LeaseBelief, NotBelievedUntilDelivered) {
  LeaseBelief lease;
  lease.Set(100, 50);
  EXPECT_FALSE(lease.Believes(60));
  EXPECT_TRUE(lease.Deliver(60));
  EXPECT_TRUE(lease.Believes(99));
  EXPECT_FALSE(lease.Believes(100));
}

TEST(LeaseBelief, AStaleGrantIsDeliveredAfterAnAck) {
  LeaseBelief lease;
  lease.Set(100, 150);
  EXPECT_FALSE(lease.Deliver(150));
  EXPECT_FALSE(lease.lapsed());
  lease.Extend(300, 200);
  EXPECT_TRUE(lease.Deliver(200));
  EXPECT_TRUE(lease.Believes(299));
}

TEST(LeaseBelief, NeverComesBack) {
  LeaseBelief lease;
  lease.Set(100, 0);
  ASSERT_TRUE(lease.Deliver(0));
  lease.Extend(500, 100);
  EXPECT_TRUE(lease.lapsed());
  EXPECT_FALSE(lease.Believes(200));
}

TEST(LeaseBelief, ALimitCapsAndTheNextAckLifts) {
  LeaseBelief lease;
  lease.Set(1000, 0);
  ASSERT_TRUE(lease.Deliver(0));
  lease.Set(400, 100);
  EXPECT_TRUE(lease.Believes(399));
  EXPECT_FALSE(lease.Believes(400));
  lease.Extend(2000, 300);
  EXPECT_TRUE(lease.Believes(1999));
  lease.Set(350, 360);  // nothing left
  EXPECT_TRUE(lease.lapsed());
}

// Any interleaving of sends, late and lost answers, limits and pauses, with a broker whose clock runs up to 500 ppm
// faster or slower: the client never believes past what the broker promised, nor after it once saw its deadline pass.
void RunInterleaving(uint64_t seed) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto pick = [&](int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random); };
  // The shortest time by the client's clock that a promise of v lasts by the broker's: v * (1 - 1000 ppm).
  const auto shortest = [](int64_t v) { return v - v / 1000; };
  int64_t now = pick(0, 1000) * kMs;
  SessionBelief session(now, 5000 * kMs);
  LeaseBelief lease;
  std::map<int64_t, int64_t> sent{{0, now}};
  struct Answer {
    int64_t seq;
    int64_t valid_for;
    bool limited;
  };
  std::vector<Answer> in_flight;
  session.Ack(0, kV, now);
  lease.Set(session.DeadlineOf(0, kV), now);
  lease.Deliver(now);
  int64_t promised = sent[0] + shortest(kV);
  bool ended = false;
  for (int step = 0; step < 400; ++step) {
    now += pick(0, 10) == 0 ? pick(0, 4000) * kMs : pick(0, 300) * kMs;
    EXPECT_FALSE(lease.Believes(now) && (now >= promised || ended));
    ended = ended || !lease.Believes(now);
    if (pick(0, 1) == 0) {
      const int64_t seq = session.Send(now);
      sent[seq] = now;
      const bool limited = pick(0, 3) == 0;
      if (pick(0, 5) != 0) in_flight.push_back({seq, limited ? pick(0, 1000) * kMs : kV, limited});
    } else if (!in_flight.empty()) {
      const Answer answer = in_flight.front();
      in_flight.erase(in_flight.begin());
      if (!session.Ack(answer.seq, kV, now)) continue;
      const int64_t deadline = session.DeadlineOf(answer.seq, answer.valid_for);
      answer.limited ? lease.Set(deadline, now) : lease.Extend(deadline, now);
      const int64_t end = sent[answer.seq] + shortest(answer.valid_for);
      promised = answer.limited ? end : std::max(promised, end);
    }
  }
}

TEST(Interleavings, NeverBelievePastThePromise) {
  for (uint64_t seed = 1; seed <= 500; ++seed) RunInterleaving(seed);
}

}  // namespace
}  // namespace distlock::internal
