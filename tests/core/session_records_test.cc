// SPDX-License-Identifier: Apache-2.0
//
// Sessions without the other parts: see sessions_test.cc for what callers see of them.
#include <deque>

#include "alone.h"
#include "core/sessions.h"

namespace distlock::core {
namespace {

struct Streams : Alone {
  Sessions sessions{core, none};
  std::deque<Lease> leases;

  Session& Open(SessionId id, SessionKind kind = SessionKind::kSession) {
    sessions.Open({id, kind}, kNever);
    return *sessions.Find(id);
  }
  // A lease of that session, under that request, which the store keeps for `left`.
  Lease& Add(Session& session, RequestId request, Duration left) {
    Lease& lease = leases.emplace_back(none);
    lease.recipient = {session.id, request};
    lease.ttl = kT;
    lease.deadline = now + left;
    session.leases.emplace(request, &lease);
    session.least_belief = std::min(session.least_belief, lease.deadline);
    return lease;
  }
  HeartbeatAck Beat(SessionId id, uint64_t seq) {
    sessions.Handle(Heartbeat{id, seq});
    const auto told = Take<Notify>();
    EXPECT_EQ(told.size(), 1u);
    return std::get<HeartbeatAck>(told.at(0).event);
  }
};

TEST(SessionRecords, AClosedStreamIsToldAndAForgottenOneIsNot) {
  Streams t;
  t.sessions.Close(t.Open(1), StreamEnd::kGoodbye);
  const auto told = t.Take<Notify>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].session, 1u);
  EXPECT_EQ(std::get<EndStream>(told[0].event).why, StreamEnd::kGoodbye);
  t.sessions.Forget(t.Open(2));
  EXPECT_TRUE(t.Take<Notify>().empty());
  EXPECT_EQ(t.sessions.Find(1), nullptr);
  EXPECT_EQ(t.sessions.Find(2), nullptr);
  EXPECT_TRUE(t.sessions.all().empty());
  EXPECT_EQ(t.core.timers.size(), 0u);
  t.sessions.Handle(Heartbeat{1, 1});
  EXPECT_TRUE(t.Take<Notify>().empty());
}

TEST(SessionRecords, AStreamThatOpensDuringADrainIsToldWhatIsLeftOfIt) {
  Streams t;
  t.core.draining = true;
  t.sessions.Open({1, SessionKind::kSession}, t.now + seconds(4));
  t.sessions.Open({2, SessionKind::kHold}, t.now - seconds(1));
  const auto told = t.Take<Notify>();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(std::get<Draining>(told[0].event).time_left, seconds(4));
  EXPECT_EQ(std::get<Draining>(told[1].event).time_left, Duration::zero()) << "never less than nothing";
}

TEST(SessionRecords, AHeartbeatLimitsWhatEndsBeforeThePromise) {
  Streams t;
  Session& session = t.Open(1);
  t.Add(session, 7, kV);
  t.Add(session, 8, seconds(1));
  t.Add(session, 9, kT).hold_until = t.now + seconds(2);
  session.least_belief = t.now + seconds(1);
  t.Pass(seconds(1) + milliseconds(500));
  const HeartbeatAck ack = t.Beat(1, 4);
  ASSERT_EQ(ack.limits.size(), 3u);
  EXPECT_EQ(ack.limits[0].acquire, 7u);
  EXPECT_EQ(ack.limits[0].valid_for, Told(milliseconds(1500)));
  EXPECT_EQ(ack.limits[1].valid_for, Duration::zero()) << "its belief has ended";
  EXPECT_EQ(ack.limits[2].valid_for, Told(milliseconds(500))) << "max_hold ends it";
}

TEST(SessionRecords, ALimitIsGoneWithItsLease) {
  Streams t;
  Session& session = t.Open(1);
  t.Add(session, 7, kT);
  t.Add(session, 8, seconds(1));
  EXPECT_EQ(t.Beat(1, 1).limits.size(), 1u);
  EXPECT_EQ(session.least_belief, t.now + seconds(1));
  session.leases.erase(8);
  EXPECT_TRUE(t.Beat(1, 2).limits.empty());
  EXPECT_EQ(session.least_belief, t.now + kT) << "heartbeats need not look at each lease again";
}

TEST(SessionRecords, AHeartbeatThatComesLateIsAnsweredButNotEchoedByGrants) {
  Streams t;
  Session& session = t.Open(1);
  t.Beat(1, 5);
  EXPECT_EQ(t.Beat(1, 3).seq, 3u);
  Lease& lease = t.Add(session, 7, kT);
  t.Take<Notify>();
  t.sessions.Give(session, 7, lease, {});
  EXPECT_EQ(std::get<Granted>(t.Take<Notify>().at(0).event).echo_seq, 5u);
}

TEST(SessionRecords, APromiseToAHoldStreamIsNotTakenBack) {
  Streams t;
  Session& hold = t.Open(1, SessionKind::kHold);
  Lease& lease = t.Add(hold, 1, seconds(2));
  lease.promised_until = t.now + seconds(9);
  t.sessions.PromiseOnHold(hold);
  EXPECT_EQ(lease.promised_until, t.now + seconds(9)) << "nothing is freed before it";
  const auto told = t.Take<Notify>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(std::get<Renewed>(told[0].event).valid_for, Told(milliseconds(1800)))
      << "and no more is promised than the lease lasts";
}

TEST(SessionRecords, AHoldStreamIsPromisedNothingThatHasEnded) {
  Streams t;
  Session& hold = t.Open(1, SessionKind::kHold);
  t.sessions.PromiseOnHold(hold);
  EXPECT_EQ(t.core.timers.size(), 0u) << "nothing to promise yet";
  const Lease& lease = t.Add(hold, 1, seconds(1));
  t.Pass(seconds(1));
  t.sessions.PromiseOnHold(hold);
  EXPECT_TRUE(t.Take<Notify>().empty());
  EXPECT_EQ(lease.promised_until, Instant{});
  EXPECT_EQ(hold.at, t.now + kV / 3) << "a renewal may make it last longer again";
}

}  // namespace
}  // namespace distlock::core
