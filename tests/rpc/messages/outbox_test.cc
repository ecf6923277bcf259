// SPDX-License-Identifier: Apache-2.0
#include "rpc/messages/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/messages/command_book.h"
#include "rpc/stream/heartbeats.h"

namespace distlock::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const core::LockName kName = core::LockName::Encode("n", "k");

Outgoing Out(core::RequestId id, core::Event event) {
  return {.id = id, .event = std::move(event), .about = {}, .made = nullptr};
}
core::AtRisk AtRisk(std::string cause) { return {.name = kName, .cause = std::move(cause)}; }
core::HeartbeatAck Ack(uint64_t seq, core::Duration valid_for = seconds(3)) {
  return {.seq = seq, .valid_for = valid_for, .limits = {}};
}

v1::SessionResponse Packed(std::deque<Outgoing>& batch) {
  v1::SessionResponse response;
  Pack(batch, &response);
  return response;
}

v1::SessionResponse PackAll(Outbox& outbox) {
  std::deque<Outgoing> batch;
  outbox.Take(kMaxEventsPerMessage, ~size_t{0}, batch);
  return Packed(batch);
}

TEST(OutboxTest, NewerStatesAndAcksReplaceOlderOnes) {
  Outbox outbox(100);
  EXPECT_TRUE(outbox.Push(Out(0, Ack(1))));
  EXPECT_TRUE(outbox.Push(Out(5, AtRisk("one"))));
  EXPECT_TRUE(outbox.Push(Out(6, AtRisk("other lease"))));
  EXPECT_TRUE(outbox.Push(Out(5, AtRisk("two"))));
  EXPECT_TRUE(outbox.Push(Out(5, core::Renewed{.name = kName})));
  EXPECT_TRUE(outbox.Push(Out(0, Ack(2))));
  EXPECT_EQ(outbox.size(), 3u);
  const v1::SessionResponse response = PackAll(outbox);
  ASSERT_EQ(response.events_size(), 3);
  EXPECT_EQ(response.events(0).at_risk().cause(), "other lease");
  EXPECT_TRUE(response.events(1).has_renewed());
  EXPECT_EQ(response.events(2).heartbeat_ack().seq(), 2u);
  EXPECT_TRUE(outbox.empty());
}

TEST(OutboxTest, OfALeaseOneHintWaits) {
  Outbox outbox(100);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(outbox.Push(Out(5, core::Wanted{.name = kName})));
    EXPECT_TRUE(outbox.Push(Out(6, core::Wanted{.name = kName})));
    EXPECT_TRUE(outbox.Push(Out(5, AtRisk("it says nothing of this"))));
  }
  EXPECT_EQ(outbox.size(), 3u);
  const v1::SessionResponse response = PackAll(outbox);
  ASSERT_EQ(response.events_size(), 3);
  EXPECT_EQ(response.events(0).id(), 5);
  EXPECT_EQ(response.events(0).wanted().lease().key(), "k");
  EXPECT_TRUE(response.events(1).has_wanted() && response.events(1).id() == 6);
  EXPECT_TRUE(response.events(2).has_at_risk());
  EXPECT_TRUE(outbox.Push(Out(5, core::Wanted{.name = kName})));
  EXPECT_TRUE(outbox.Push(Out(5, core::Lost{.name = kName})));
  EXPECT_EQ(outbox.size(), 1u) << "it is over";
  EXPECT_TRUE(PackAll(outbox).events(0).has_lost());
}

TEST(OutboxTest, AFinalEventDropsTheStateBeforeIt) {
  Outbox outbox(100);
  EXPECT_TRUE(outbox.Push(Out(5, AtRisk("old"))));
  EXPECT_TRUE(outbox.Push(Out(5, core::Lost{.name = kName})));
  // The id is used a second time.
  EXPECT_TRUE(outbox.Push(Out(5, core::Granted{.name = kName})));
  EXPECT_TRUE(outbox.Push(Out(5, AtRisk("new"))));
  const v1::SessionResponse response = PackAll(outbox);
  ASSERT_EQ(response.events_size(), 3);
  EXPECT_TRUE(response.events(0).has_lost());
  EXPECT_TRUE(response.events(1).has_granted());
  EXPECT_EQ(response.events(2).at_risk().cause(), "new");
}

TEST(OutboxTest, ConflatesAcrossTakes) {
  Outbox outbox(100);
  EXPECT_TRUE(outbox.Push(Out(0, Ack(1))));
  EXPECT_TRUE(outbox.Push(Out(5, AtRisk("taken"))));
  EXPECT_EQ(PackAll(outbox).events_size(), 2);
  EXPECT_TRUE(outbox.Push(Out(5, AtRisk("next"))));
  EXPECT_TRUE(outbox.Push(Out(0, Ack(2))));
  EXPECT_EQ(PackAll(outbox).events_size(), 2);
}

// A client with very many requests hears of its heartbeats all the same.
TEST(OutboxTest, AnAckOvertakesWhatSaysNothingOfALease) {
  Outbox outbox(100);
  EXPECT_TRUE(outbox.Push(Out(1, AtRisk("before"))));
  EXPECT_TRUE(outbox.Push(Out(2, core::Queued{})));
  EXPECT_TRUE(outbox.Push(Out(0, Ack(1))));
  EXPECT_TRUE(outbox.Push(Out(3, core::Refused{})));
  EXPECT_TRUE(outbox.Push(Out(0, Ack(2)))) << "in the place of the first";
  EXPECT_TRUE(outbox.Push(Out(1, core::Renewed{.name = kName})));
  const v1::SessionResponse response = PackAll(outbox);
  ASSERT_EQ(response.events_size(), 4);
  EXPECT_EQ(response.events(0).heartbeat_ack().seq(), 2);
  EXPECT_TRUE(response.events(1).has_queued());
  EXPECT_TRUE(response.events(2).has_refused());
  EXPECT_TRUE(response.events(3).has_renewed());
  EXPECT_TRUE(outbox.empty());
}

// An ack covers every lease that it does not list.
TEST(OutboxTest, AnAckOvertakesNothingElse) {
  const std::vector<core::Event> others = {
      core::Granted{.name = kName}, core::Lost{.name = kName}, core::Released{}, core::Downgraded{}, AtRisk("now"),
      core::Renewed{.name = kName}, core::Draining{},          core::Wanted{}};
  for (const core::Event& other : others) {
    Outbox outbox(100);
    EXPECT_TRUE(outbox.Push(Out(2, core::Queued{})));
    EXPECT_TRUE(outbox.Push(Out(7, other)));
    EXPECT_TRUE(outbox.Push(Out(3, core::Queued{})));
    EXPECT_TRUE(outbox.Push(Out(0, Ack(1))));
    EXPECT_TRUE(outbox.Push(Out(7, AtRisk("later"))));
    EXPECT_TRUE(outbox.Push(Out(0, Ack(2))));
    std::deque<Outgoing> batch;
    outbox.Take(kMaxEventsPerMessage, ~size_t{0}, batch);
    std::vector<core::RequestId> order;
    for (const Outgoing& out : batch) order.push_back(out.id);
    const bool is_state =
        other.index() == core::Event(AtRisk("")).index() || other.index() == core::Event(core::Renewed{}).index();
    const std::vector<core::RequestId> all = {2, 7, 3, 7, 0};
    const std::vector<core::RequestId> replaced = {2, 3, 7, 0};
    EXPECT_EQ(order, is_state ? replaced : all) << other.index();
  }
}

TEST(OutboxTest, IsBoundedAlsoInConflatedSlots) {
  Outbox outbox(3);
  for (int i = 1; i <= 3; ++i) EXPECT_TRUE(outbox.Push(Out(i, core::Queued{})));
  EXPECT_FALSE(outbox.Push(Out(9, core::Queued{})));
  outbox.Clear();
  EXPECT_TRUE(outbox.empty());
  int taken = 0;
  for (int i = 0; i < 100; ++i) taken += outbox.Push(Out(0, Ack(i)));
  EXPECT_LE(taken, 6);
}

TEST(OutboxTest, CountsItsBytes) {
  Outbox outbox(100);
  std::vector<core::HolderView> holders(16);
  for (core::HolderView& holder : holders) holder.info.assign(1200, 'x');
  core::Event refused = core::Refused{.holders = holders};
  ShortenHolders(refused);
  EXPECT_EQ(std::get<core::Refused>(refused).holders.size(), 1u);
  EXPECT_TRUE(outbox.Push(Out(1, refused)));
  const size_t one = outbox.bytes();
  EXPECT_GT(one, 1200u);
  EXPECT_LT(one, 3000u);
  EXPECT_TRUE(outbox.Push(Out(2, refused)));
  EXPECT_TRUE(outbox.Push(Out(3, AtRisk("cause"))));
  EXPECT_TRUE(outbox.Push(Out(3, core::Renewed{.name = kName}))) << "in the place of the state before";
  EXPECT_TRUE(outbox.Push(Out(0, Ack(1))));
  EXPECT_TRUE(outbox.Push(Out(0, Ack(2))));
  std::deque<Outgoing> batch;
  EXPECT_EQ(outbox.Take(100, 1, batch), one) << "one event at least, and no more once it has so many bytes";
  EXPECT_EQ(batch.size(), 1u);
  while (!outbox.empty()) outbox.Take(100, one, batch);
  EXPECT_EQ(outbox.bytes(), 0u);
  EXPECT_TRUE(outbox.Push(Out(1, refused)));
  outbox.Clear();
  EXPECT_EQ(outbox.bytes(), 0u);
}

TEST(OutboxTest, MessagesAreBoundedByEventsAndBytes) {
  Outbox many(10'000);
  for (int i = 0; i < 2500; ++i) ASSERT_TRUE(many.Push(Out(i + 1, core::Queued{})));
  std::deque<Outgoing> batch;
  many.Take(5000, ~size_t{0}, batch);
  EXPECT_EQ(Packed(batch).events_size(), 1000);
  EXPECT_EQ(Packed(batch).events_size(), 1000);
  EXPECT_EQ(Packed(batch).events_size(), 500);

  Outbox large(10'000);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(large.Push(Out(i + 1, AtRisk(std::string(4096, 'x')))));
  large.Take(1000, ~size_t{0}, batch);
  size_t messages = 0;
  for (; !batch.empty(); ++messages) EXPECT_LT(Packed(batch).ByteSizeLong(), kFullMessageBytes + 64 * 1024);
  EXPECT_GE(messages, 8u);
}

TEST(Heartbeats, WaitsForAllShardsAndTakesTheLeast) {
  Heartbeats heartbeats;
  heartbeats.Sent(1, 0b101);
  EXPECT_FALSE(heartbeats.Answered(0, Ack(1, seconds(3))));
  EXPECT_FALSE(heartbeats.Answered(0, Ack(1, seconds(3)))) << "the same shard twice";
  core::HeartbeatAck last = Ack(1, seconds(2));
  last.limits = {{7, seconds(1)}, {8, milliseconds(2500)}};
  const auto joined = heartbeats.Answered(2, last);
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->valid_for, seconds(2));
  ASSERT_EQ(joined->limits.size(), 1u);
  EXPECT_EQ(joined->limits[0].acquire, 7u);
  EXPECT_FALSE(heartbeats.Answered(2, last));
}

TEST(Heartbeats, AGrantBetweenTwoAnswersBecomesALimit) {
  Heartbeats heartbeats;
  heartbeats.Sent(1, 0b11);
  EXPECT_FALSE(heartbeats.Answered(0, Ack(1)));
  heartbeats.Granted(0, 42, seconds(1));
  heartbeats.Granted(1, 43, seconds(1));  // no limit: the ack of its own shard covers or lists it
  const auto joined = heartbeats.Answered(1, Ack(1));
  ASSERT_TRUE(joined);
  ASSERT_EQ(joined->limits.size(), 1u);
  EXPECT_EQ(joined->limits[0].acquire, 42u);
}

TEST(Heartbeats, AcksWaitForAShardThatJoins) {
  Heartbeats heartbeats;
  EXPECT_THAT(heartbeats.Joined(0), testing::IsEmpty());
  heartbeats.Sent(1, 0b1);
  heartbeats.Sent(2, 0b1);
  EXPECT_THAT(heartbeats.Joined(3), testing::ElementsAre(1, 2));
  EXPECT_FALSE(heartbeats.Answered(0, Ack(1)));
  EXPECT_TRUE(heartbeats.Answered(3, Ack(1)));
  EXPECT_FALSE(heartbeats.Answered(3, Ack(2)));
  EXPECT_TRUE(heartbeats.Answered(0, Ack(2)));
  EXPECT_THAT(heartbeats.Joined(4), testing::ElementsAre(2)) << "so that its grants echo the newest heartbeat";
  EXPECT_FALSE(heartbeats.Answered(4, Ack(2))) << "the client has that answer";
}

// A shard's full mailbox may lose a heartbeat. It must not stay pending for ever and collect every grant.
TEST(Heartbeats, AnUnansweredOneEndsWithTheNextAnsweredOne) {
  Heartbeats heartbeats;
  heartbeats.Sent(1, 0b11);
  EXPECT_FALSE(heartbeats.Answered(0, Ack(1)));
  heartbeats.Sent(2, 0b11);
  EXPECT_FALSE(heartbeats.Answered(0, Ack(2)));
  EXPECT_TRUE(heartbeats.Answered(1, Ack(2)));
  EXPECT_THAT(heartbeats.Joined(2), testing::ElementsAre(2)) << "the heartbeat before it is not sent again";
  EXPECT_FALSE(heartbeats.Answered(1, Ack(1))) << "it is not new";
}

TEST(Heartbeats, AreBounded) {
  Heartbeats heartbeats;
  for (uint64_t seq = 1; seq <= 1000; ++seq) heartbeats.Sent(seq, 0b11);
  EXPECT_EQ(heartbeats.Joined(2).size(), kMaxPendingHeartbeats);
}

TEST(CommandBookTest, FollowsIdsFromCommandToEnd) {
  CommandBook book;
  book.AddAcquire(2, kName, {1}, 3);
  EXPECT_EQ(book.ShardOf(2), 3);
  EXPECT_EQ(book.OnEvent(2, core::Granted{}), core::LockName());
  EXPECT_EQ(book.AcquireOf({1}), 2u);
  book.AddRelease(5, 2, 3);
  EXPECT_FALSE(book.ShardOf(5));
  book.OnEvent(5, core::Released{});
  EXPECT_EQ(book.size(), 0u);
  EXPECT_EQ(book.AcquireOf({1}), 0u);

  book.AddAcquire(6, kName, {2}, 0);
  EXPECT_EQ(book.OnEvent(6, core::Refused{}), kName);
  EXPECT_EQ(book.acquires(), 0u);
}

TEST(CommandBookTest, AnUnconfirmedReleaseEndsItsLease) {
  CommandBook book;
  book.AddAcquire(2, kName, {1}, 0);
  book.AddRelease(3, 2, 0);
  book.OnEvent(3, core::Refused{.reason = core::RefusalReason::kNotHolder});
  EXPECT_TRUE(book.Has(2));
  book.AddRelease(4, 2, 0);
  book.OnEvent(4, core::Refused{.reason = core::RefusalReason::kStoreUnavailable});
  EXPECT_FALSE(book.Has(2));
}

}  // namespace
}  // namespace distlock::rpc
