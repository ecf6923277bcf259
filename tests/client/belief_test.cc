// SPDX-License-Identifier: Apache-2.0
#include "belief.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "distlock/wire/times.h"
#include "lock_table.h"

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
  EXPECT_EQ(session.deadline_ns(), kV);
}

TEST(SessionBelief, TheGraceOfTheOpenIsNoPromise) {
  SessionBelief session(0, 3'600'000 * kMs);
  ASSERT_TRUE(session.Ack(0, kV, kMs));
  EXPECT_EQ(session.deadline_ns(), kV);
}

// A lease in a lock table, and what its broker has promised it.
class Interleaving {
 public:
  explicit Interleaving(uint64_t seed) : random_(seed), now_(Pick(0, 1000) * kMs) {
    table_.OnStarted(now_, std::nullopt, std::nullopt, fx_);
    Send();
    const SpecPtr spec = MakeSpec("a", {});
    const RequestPtr request = table_.Acquire(
        {&spec, 1}, std::nullopt, [this](Result<Leases> answer) { lease_ = answer.value().front(); }, now_, fx_);
    v1::SessionEvent event;
    event.mutable_opened()->mutable_validity()->set_seconds(3);
    Hear(event);
    event.set_id(request->id());
    event.mutable_granted()->mutable_valid_for()->set_seconds(3);
    Hear(event);
  }

  void Run() {
    for (int step = 0; step < 400; ++step) {
      now_ += Pick(0, 10) == 0 ? Pick(0, 4000) * kMs : Pick(0, 300) * kMs;
      if (Pick(0, 1) == 0) {
        table_.Tick(now_, fx_);
        Send();
      } else if (!in_flight_.empty()) {
        Answer();
      }
      if (Pick(0, 3) == 0) table_.Notice(lease_, now_, fx_);
      const bool believes = lease_->phase == Lease::Phase::kHeld && now_ < lease_->deadline_ns;
      EXPECT_FALSE(believes && (now_ >= promised_ || ended_)) << "at " << now_;
      ended_ = ended_ || !believes;
    }
  }

 private:
  struct Ack {
    int64_t seq;
    int64_t valid_for;
    bool limited;
  };

  int64_t Pick(int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random_); }

  void Hear(const v1::SessionEvent& event) {
    table_.OnEvent(event, now_, fx_, 0);
    std::exchange(fx_, {}).Run({});
  }

  // One of six heartbeats is lost.
  void Send() {
    for (v1::SessionRequest message; table_.Pack(now_, 0, message); message.Clear()) {
      for (const v1::SessionCommand& command : message.commands()) {
        if (!command.has_heartbeat()) continue;
        sent_[command.heartbeat().seq()] = now_;
        const bool limited = Pick(0, 3) == 0;
        if (Pick(0, 5) != 0)
          in_flight_.push_back({command.heartbeat().seq(), limited ? Pick(0, 1000) * kMs : kV, limited});
      }
    }
  }

  void Answer() {
    const Ack ack = in_flight_.front();
    in_flight_.erase(in_flight_.begin());
    if (now_ < session_until_) {
      const int64_t end = sent_[ack.seq] + ack.valid_for;
      promised_ = ack.limited ? end : std::max(promised_, end);
      session_until_ = std::max(session_until_, sent_[ack.seq] + kV);
    }
    v1::SessionEvent event;
    v1::HeartbeatAck& told = *event.mutable_heartbeat_ack();
    told.set_seq(ack.seq);
    told.mutable_valid_for()->set_seconds(3);
    if (ack.limited) {
      v1::LeaseLimit& limit = *told.add_limits();
      limit.set_acquire_id(lease_->id);
      *limit.mutable_valid_for() = wire::ToProto(Duration(ack.valid_for));
    }
    Hear(event);
  }

  std::mt19937_64 random_;
  int64_t now_;
  LockTable table_{{.address = "nowhere", .connect_timeout_ns = kV}};
  Effects fx_;
  LeasePtr lease_;
  std::map<int64_t, int64_t> sent_{{0, now_}};
  std::vector<Ack> in_flight_;
  int64_t session_until_ = now_ + kV;
  int64_t promised_ = now_ + kV;
  bool ended_ = false;
};

// Any interleaving of sends, late and lost answers, limits and pauses: the client never believes past what the broker
// promised, nor after it once saw its deadline pass.
TEST(Interleavings, NeverBelievePastThePromise) {
  for (uint64_t seed = 1; seed <= 500 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Interleaving(seed).Run();
  }
}

}  // namespace
}  // namespace distlock::internal
