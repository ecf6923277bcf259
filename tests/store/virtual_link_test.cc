// SPDX-License-Identifier: Apache-2.0
//
// A link in virtual time, with the test as the network: drops, bytes that leave in part, silence, pauses.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "fake_network.h"
#include "store/redis/link.h"
#include "store/text.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class VirtualLinkTest : public testing::Test, public Link::Owner {
 protected:
  void OnLinkConnected() override { ++connected_; }
  void OnLinkDown(const absl::Status& why) override { events_.push_back(Cat("down: ", why.message())); }

  FakeTransport& wire() { return *net_.dialer->dialed.back(); }
  size_t dials() const { return net_.dialer->dialed.size(); }
  void Advance(core::Duration by) { net_.timers->Advance(by); }

  // Through the log-in, and ready.
  void Open() {
    wire().Connect();
    wire().Reply("+OK\r\n");
    link_.MarkReady();
  }
  void Start() {
    link_.Start();
    Open();
  }
  void Send(const std::string& name) {
    link_.Send(MakeCommand({name}), [this, name](const Answer& answer) {
      const char* kinds[] = {"reply", "not sent", "unknown"};
      events_.push_back(Cat(name, ": ", kinds[static_cast<int>(answer.kind)]));
    });
  }

  FakeNetwork net_;
  int connected_ = 0;
  std::vector<std::string> events_;
  Link link_{net_.network, {.address = {.host = "h", .port = 7}, .connect_timeout = seconds(3)}, this};
};

using Events = std::vector<std::string>;

TEST_F(VirtualLinkTest, DialsItsAddressAndAnswersInOrder) {
  Start();
  EXPECT_EQ(net_.dialer->addresses, (std::vector<ServerAddress>{{.host = "h", .port = 7}}));
  EXPECT_EQ(connected_, 1);
  Send("a");
  Send("b");
  link_.Flush();
  wire().Reply("+1\r\n");
  wire().Reply("-ERR no\r\n");
  EXPECT_EQ(events_, (Events{"a: reply", "b: reply"}));
}

TEST_F(VirtualLinkTest, AfterADropWhatLeftIsUnknownAndTheRestNotSent) {
  Start();
  Send("a");
  Send("b");
  link_.Flush();
  // All of a, and of b all bytes but the last.
  wire().room = wire().appended() - 1;
  Send("c");
  wire().Drop("reset");
  EXPECT_EQ(events_, (Events{"down: reset", "a: unknown", "b: not sent", "c: not sent"}));
}

TEST_F(VirtualLinkTest, WithoutAConnectionNothingIsSentAndTheAnswerComesLater) {
  link_.Start();
  Send("a");
  EXPECT_EQ(events_, Events{});
  Advance(core::Duration::zero());
  EXPECT_EQ(events_, Events{"a: not sent"});
}

TEST_F(VirtualLinkTest, BackOffGrowsWithJitterUntilItIsReadyAgain) {
  link_.Start();
  for (const auto& full : {milliseconds(50), milliseconds(100), milliseconds(200), milliseconds(400), milliseconds(800),
                           milliseconds(1600), milliseconds(2000), milliseconds(2000)}) {
    const size_t before = dials();
    const core::Instant dropped = net_.timers->Now();
    wire().Drop("refused");
    Advance(seconds(2));
    ASSERT_EQ(dials(), before + 1);
    EXPECT_GE(wire().dialed_at - dropped, full / 2);
    EXPECT_LE(wire().dialed_at - dropped, full);
  }
  Open();
  const core::Instant dropped = net_.timers->Now();
  wire().Drop("reset");
  Advance(milliseconds(50));
  EXPECT_LE(wire().dialed_at - dropped, milliseconds(50));
}

TEST_F(VirtualLinkTest, AConnectionThatIsNotReadyInTimeIsGivenUp) {
  link_.Start();
  wire().Connect();
  Advance(milliseconds(2999));
  EXPECT_EQ(events_, Events{});
  Advance(milliseconds(1));
  EXPECT_EQ(events_, Events{"down: no usable connection within 3000 ms"});
  Advance(milliseconds(50));
  EXPECT_EQ(dials(), 2u);
}

TEST_F(VirtualLinkTest, SilenceOfASecondEndsTheConnection) {
  Start();
  Advance(seconds(10));  // nothing is pending
  Send("a");
  link_.Flush();
  Advance(milliseconds(999));
  EXPECT_EQ(events_, Events{});
  Advance(milliseconds(1));
  EXPECT_EQ(events_, (Events{"down: the server has not answered for 1000 ms", "a: unknown"}));
  EXPECT_EQ(dials(), 2u) << "at once";
}

TEST_F(VirtualLinkTest, ASlowServerThatAnswersIsNotSilent) {
  Start();
  for (const char* name : {"a", "b", "c", "d"}) Send(name);
  link_.Flush();
  for (int i = 0; i < 4; ++i) {
    Advance(milliseconds(900));
    wire().Reply("+OK\r\n");
  }
  EXPECT_EQ(events_, (Events{"a: reply", "b: reply", "c: reply", "d: reply"}));
  Send("e");
  Advance(milliseconds(990));
  EXPECT_EQ(dials(), 1u);
  Advance(milliseconds(10));
  EXPECT_EQ(dials(), 2u);
}

TEST_F(VirtualLinkTest, APauseOfThisProcessIsNoSilence) {
  Start();
  Send("a");
  link_.Flush();
  Advance(milliseconds(500));
  net_.timers->Pause(seconds(30));
  EXPECT_EQ(events_, Events{});
  Advance(milliseconds(999));
  EXPECT_EQ(events_, Events{});
  Advance(milliseconds(1));
  EXPECT_EQ(dials(), 2u);
}

TEST_F(VirtualLinkTest, ASilenceWhileNotReadyIsTheConnectTimeouts) {
  link_.Start();
  wire().Connect();
  wire().Reply("+OK\r\n");
  Send("a");
  Advance(milliseconds(2000));
  EXPECT_EQ(events_, Events{});
  link_.MarkReady();
  Advance(milliseconds(999));
  EXPECT_EQ(events_, Events{});
  Advance(milliseconds(1));
  EXPECT_EQ(dials(), 2u);
}

// Commands to the old server are unknown, even though it may still answer.
TEST_F(VirtualLinkTest, AMoveLeavesTheOldServerAtOnce) {
  Start();
  Send("a");
  wire().room = wire().appended();
  link_.Flush();
  Send("b");
  FakeTransport& old = wire();
  link_.MoveTo({.host = "other", .port = 8}, absl::UnavailableError("moved"));
  EXPECT_FALSE(old.open());
  Advance(core::Duration::zero());
  EXPECT_EQ(events_, (Events{"down: moved", "a: unknown", "b: not sent"}));
  ASSERT_EQ(dials(), 2u);
  EXPECT_EQ(net_.dialer->addresses.back(), (ServerAddress{.host = "other", .port = 8}));
}

TEST_F(VirtualLinkTest, AfterAMoveItTriesWithoutBackOffForAWhile) {
  Start();
  wire().Drop("gone");
  for (int i = 0; i < 8; ++i) {
    Advance(seconds(2));
    wire().Drop("refused");
  }
  const size_t before = dials();
  const core::Instant moved = net_.timers->Now();
  link_.MoveTo({.host = "other"}, absl::UnavailableError("moved"));
  Advance(core::Duration::zero());
  EXPECT_EQ(dials(), before + 1) << "at once, although the next attempt was seconds away";
  while (net_.timers->Now() - moved < kHurry - milliseconds(200)) {
    const size_t tries = dials();
    wire().Drop("refused");
    Advance(milliseconds(101));
    ASSERT_GT(dials(), tries);
  }
  wire().Drop("refused");
  Advance(seconds(2));
  wire().Drop("refused");
  const size_t tries = dials();
  Advance(milliseconds(400));
  EXPECT_EQ(dials(), tries) << "the back-off is as it was";
}

TEST_F(VirtualLinkTest, AMoveBeforeTheStartOnlyNotesTheAddress) {
  link_.MoveTo({.host = "other"}, absl::UnavailableError("moved"));
  Advance(seconds(1));
  EXPECT_EQ(dials(), 0u);
  Start();
  EXPECT_EQ(net_.dialer->addresses.back().host, "other");
}

TEST_F(VirtualLinkTest, NothingComesAfterStop) {
  Start();
  Send("a");
  link_.Stop();
  EXPECT_FALSE(wire().open());
  Advance(seconds(10));
  EXPECT_EQ(events_, Events{});
  EXPECT_EQ(dials(), 1u);
}

}  // namespace
}  // namespace distlock::store
