// SPDX-License-Identifier: Apache-2.0
//
// A node in virtual time with servers played by the test: the hand-off channel and the commands have one server.
#include "store/redis/server_node.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fake_network.h"
#include "store/redis/wire_value.h"
#include "store/single/single_store.h"
#include "store/text.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A server's facts, and how many listeners PUBLISH finds.
struct PlayedServer {
  std::string run_id;
  std::string role = "master";
  int listeners = 1;
  uint64_t seconds = 1'700'000'000;  // by its clock
  uint64_t us = 5;
};

std::string Bulk(std::string_view text) { return Cat("$", text.size(), "\r\n", text, "\r\n"); }

class ServerNodeTest : public testing::Test, public StoreListener {
 protected:
  void OnStoreInput(core::Input&& input) override {
    if (const auto* up = std::get_if<core::StoreUp>(&input)) {
      ++ups_;
      renews_ += up->renew_all;
    }
    downs_ += std::holds_alternative<core::StoreDown>(input);
    channel_ups_ += std::holds_alternative<core::ChannelUp>(input);
    if (const auto* step = std::get_if<core::StoreClockStep>(&input)) steps_.push_back(step->by);
    if (const auto* notice = std::get_if<core::GrantNotice>(&input)) made_ = notice->made;
  }

  FakeTransport& wire(size_t i) { return *net_.dialer->dialed.at(i); }
  size_t dials() const { return net_.dialer->dialed.size(); }

  // Plays `server` at the other end of the i-th connection until it has answered everything.
  void Play(size_t i, const PlayedServer& server) {
    FakeTransport& wire = this->wire(i);
    if (played_.size() <= i) played_.resize(i + 1, 0);
    if (played_[i] == 0) wire.Connect();
    while (wire.open() && played_[i] < wire.commands.size()) wire.Reply(AnswerOf(wire.commands[played_[i]++], server));
    net_.timers->Advance(core::Duration::zero());
  }

  // Time passes, by the server's clock, too, and it answers.
  void Pass(size_t i, PlayedServer server, core::Duration time) {
    constexpr core::Duration kStep = milliseconds(100);
    for (core::Duration passed{}; passed < time; passed += kStep) {
      net_.timers->Advance(kStep);
      server.us += 100'000;
      server.seconds += server.us / 1'000'000;
      server.us %= 1'000'000;
      Play(i, server);
    }
  }

  std::string NextAcquire(size_t i, size_t argument, core::Instant run_before = core::kNever) {
    store_.Submit(core::StoreAcquire{
        .op = ++op_, .name = core::LockName::Encode("ns", "k"), .ttl = seconds(9), .run_before = run_before});
    store_.Flush();
    const ReplyPtr argv = Parse(wire(i).commands.back());
    return std::string(Text(*argv->element[7 + argument]));
  }
  // The argument of an acquire that says whether PUBLISH may be trusted.
  std::string TrustOfNextAcquire(size_t i) { return NextAcquire(i, 9); }

  FakeNetwork net_;
  std::vector<std::string> problems_;
  SingleStore store_{net_.network, Options([this](const absl::Status& why) { problems_.emplace_back(why.message()); })};
  int ups_ = 0;
  int renews_ = 0;
  int downs_ = 0;
  int channel_ups_ = 0;
  std::vector<core::Duration> steps_;
  core::Instant made_{};

 private:
  static StoreOptions Options(std::function<void(const absl::Status&)> on_problem) {
    StoreOptions options;
    options.locks.broker_id = "00000000000000b1";
    options.on_problem = std::move(on_problem);
    return options;
  }

  static std::string AnswerOf(const std::string& command, const PlayedServer& server) {
    const ReplyPtr argv = Parse(command);
    const std::string_view verb = Text(*argv->element[0]);
    if (verb == "INFO") {
      return Bulk(Cat("redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:", server.run_id,
                      "\r\nrole:", server.role, "\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nloading:0\r\n"));
    }
    if (verb == "SUBSCRIBE") {
      return Cat("*3\r\n", Bulk("subscribe"), Bulk(Text(*argv->element[1])), ":1\r\n");
    }
    if (verb == "SCRIPT") {
      for (const lua::ScriptSource* script : AllScripts()) {
        if (script->body == Text(*argv->element[2])) return Bulk(script->sha1);
      }
    }
    if (verb == "PUBLISH") return Cat(":", server.listeners, "\r\n");
    if (verb == "TIME") return Cat("*2\r\n", Bulk(Cat(server.seconds)), Bulk(Cat(server.us)));
    if (verb == "CONFIG") return Cat("*2\r\n", Bulk("save"), Bulk(""));
    if (verb == "EVALSHA") return "-NOREPLICAS not now\r\n";
    return "+OK\r\n";
  }

  std::vector<size_t> played_;
  core::OpId op_ = 0;
};

const PlayedServer kOld{.run_id = "old"};
const PlayedServer kNew{.run_id = "new"};

TEST_F(ServerNodeTest, OneServerForBothIsTrusted) {
  store_.Start(this);
  Play(0, kOld);  // the channel first
  ASSERT_EQ(dials(), 2u);
  Play(1, kOld);
  EXPECT_EQ(ups_, 1);
  EXPECT_EQ(TrustOfNextAcquire(1), "1");
  EXPECT_EQ(dials(), 2u);
}

TEST_F(ServerNodeTest, TheChannelFollowsTheCommandsToAnotherServer) {
  store_.Start(this);
  Play(0, kOld);
  Play(1, kOld);
  wire(1).Drop("reset");
  net_.timers->Advance(milliseconds(100));
  Play(2, kNew);
  EXPECT_EQ(ups_, 2);
  EXPECT_EQ(TrustOfNextAcquire(2), "0") << "nobody listens there yet";
  ASSERT_EQ(dials(), 4u) << "the channel is made anew";
  EXPECT_FALSE(wire(0).open());
  Play(3, kNew);
  EXPECT_EQ(channel_ups_, 2);
  EXPECT_EQ(TrustOfNextAcquire(2), "0") << "other brokers may still be on their way";
  Play(2, kNew);
  Pass(2, kNew, seconds(2));
  EXPECT_EQ(TrustOfNextAcquire(2), "1");
}

// As a primary that was demoted does, until its commands' connection ends: a line for each attempt would fill the log.
TEST_F(ServerNodeTest, ThatTheChannelIsAtAnotherServerIsReportedOnce) {
  store_.Start(this);
  Play(0, kOld);
  Play(1, kOld);
  wire(0).Drop("reset");
  size_t tried = 0;
  for (int i = 0; i < 100; ++i) {
    net_.timers->Advance(milliseconds(100));
    if (dials() < 3 + tried) continue;
    Play(2 + tried, {.run_id = "old", .role = "slave"});
    ++tried;
  }
  EXPECT_GE(tried, 5u);
  EXPECT_EQ(std::ranges::count_if(problems_, [](const auto& text) { return Contains(text, "another server"); }), 1);
}

TEST_F(ServerNodeTest, ASubscriptionThatPublishDoesNotCountIsMadeAnew) {
  store_.Start(this);
  Play(0, kOld);
  Play(1, {.run_id = "old", .listeners = 0});
  EXPECT_EQ(TrustOfNextAcquire(1), "0");
  ASSERT_EQ(dials(), 3u);
  EXPECT_FALSE(wire(0).open());
  Play(2, kOld);
  EXPECT_EQ(TrustOfNextAcquire(1), "1");
}

TEST_F(ServerNodeTest, TheCommandsFollowTheChannelToAnotherPrimary) {
  store_.Start(this);
  Play(0, kOld);
  Play(1, kOld);
  wire(0).Drop("reset");
  net_.timers->Advance(milliseconds(100));
  Play(2, kNew);
  ASSERT_EQ(dials(), 4u) << "the address leads elsewhere now";
  EXPECT_FALSE(wire(1).open());
  EXPECT_EQ(downs_, 1);
  Play(3, kNew);
  EXPECT_EQ(ups_, 2);
  EXPECT_EQ(renews_, 1) << "of all leases, at another server";
  Play(3, kNew);
  Pass(3, kNew, seconds(2));
  EXPECT_EQ(TrustOfNextAcquire(3), "1");
  EXPECT_EQ(dials(), 4u);
}

TEST_F(ServerNodeTest, AChannelAtAReplicaIsMadeAnewLessAndLessOften) {
  store_.Start(this);
  Play(0, {.run_id = "replica", .role = "slave"});
  Play(1, kOld);
  size_t channels = 1;
  for (size_t next = 2; net_.timers->Now() < core::Instant(std::chrono::hours(1)) + seconds(20); ++next) {
    while (dials() <= next) {
      net_.timers->Advance(milliseconds(10));
      Play(1, kOld);  // which the commands' connection asks for the time now and then
    }
    Play(next, {.run_id = "replica", .role = "slave"});
    ++channels;
  }
  EXPECT_LT(channels, 20u);
  EXPECT_EQ(downs_, 0) << "commands go on";
  EXPECT_TRUE(wire(1).open());
}

// Knowledge of a clock that is not heard of gets wider, until every acquire would be refused as late.
TEST_F(ServerNodeTest, TheServersClockIsAskedForWhileNothingElseIs) {
  store_.Start(this);
  Play(0, kOld);
  Play(1, kOld);
  const size_t before = wire(1).commands.size();
  net_.timers->Advance(milliseconds(999));
  EXPECT_EQ(wire(1).commands.size(), before);
  net_.timers->Advance(milliseconds(1));
  ASSERT_EQ(wire(1).commands.size(), before + 1);
  EXPECT_NE(wire(1).commands.back().find("TIME"), std::string::npos);
  Play(1, {.run_id = "old", .seconds = kOld.seconds + 1});
  EXPECT_TRUE(steps_.empty());
  net_.timers->Advance(seconds(1));
  Play(1, {.run_id = "old", .seconds = kOld.seconds + 7});
  ASSERT_EQ(steps_.size(), 1u);
  EXPECT_NEAR(static_cast<double>(steps_[0].count()), 5e9, 5e7) << "somebody set it";
}

TEST_F(ServerNodeTest, AServerThatHangsWhileNobodyAsksItIsNoticed) {
  store_.Start(this);
  Play(0, kOld);
  Play(1, kOld);
  net_.timers->Advance(milliseconds(1900));
  EXPECT_EQ(downs_, 0);
  net_.timers->Advance(milliseconds(200));
  EXPECT_EQ(downs_, 1);
}

// A waiter would else wait until its broker looks at the queue by itself.
TEST_F(ServerNodeTest, ANoticeOfAnotherTimeHasTheClockAskedForAtOnce) {
  const auto notice = [](std::string_view since_us) {
    return Cat("*3\r\n", Bulk("message"), Bulk("dl:grant:00000000000000b1"),
               Bulk(Cat("ns/k\n000000000000000000000000000000aa;7;", since_us, ";9000;0")));
  };
  store_.Start(this);
  Play(0, kOld);
  Play(1, kOld);
  const size_t before = wire(1).commands.size();
  wire(0).Reply(notice("1700000000000005"));
  EXPECT_EQ(wire(1).commands.size(), before) << "it is of this moment";
  wire(0).Reply(notice("1699999980000005"));
  ASSERT_EQ(wire(1).commands.size(), before + 1);
  Play(1, {.run_id = "old", .seconds = kOld.seconds - 20});
  ASSERT_EQ(steps_.size(), 1u);
  EXPECT_LT(steps_[0], -seconds(19));
  wire(0).Reply(notice("1700000060000005"));
  Play(1, {.run_id = "old", .seconds = kOld.seconds + 60});
  ASSERT_EQ(steps_.size(), 2u);
  EXPECT_GT(steps_[1], seconds(79));
  wire(0).Reply(notice("1700000060050005"));
  Play(1, {.run_id = "old", .seconds = kOld.seconds + 60, .us = 50'005});
  EXPECT_EQ(steps_.size(), 3u) << "a notice comes late, but never early";
}

TEST_F(ServerNodeTest, AClockThatDiffersAfterAReconnectIsTold) {
  store_.Start(this);
  Play(0, kOld);
  Play(1, kOld);
  wire(1).Drop("reset");
  net_.timers->Advance(milliseconds(100));
  Play(2, {.run_id = "new", .seconds = kOld.seconds + 60});
  ASSERT_EQ(steps_.size(), 1u) << "keys that were written by the old clock end early by the new one";
  EXPECT_GT(steps_[0], seconds(59));
}

TEST_F(ServerNodeTest, InstantsBecomeTheServersTimeAndItsStampsInstants) {
  store_.Start(this);
  Play(0, kOld);
  Play(1, kOld);
  const core::Instant now = net_.timers->Now();
  const std::string not_after = NextAcquire(1, 3, now + seconds(2));
  const uint64_t shown = ParseNumber(not_after).value_or(0);
  EXPECT_LE(shown, 1'700'000'002'000'005u) << "surely shown by then";
  EXPECT_GE(shown, 1'700'000'001'990'000u) << "and no earlier than the drift of two seconds demands";
  EXPECT_EQ(NextAcquire(1, 3), "0");
  wire(0).Reply(Cat("*3\r\n", Bulk("message"), Bulk("dl:grant:00000000000000b1"),
                    Bulk("ns/k\n000000000000000000000000000000aa;7;1699999999000005;9000;0")));
  EXPECT_LE(made_, now - seconds(1));
  EXPECT_GT(made_, now - milliseconds(1010));
}

TEST_F(ServerNodeTest, ARoleThatChangedUnderTheChannelIsReadAnew) {
  store_.Start(this);
  Play(0, {.run_id = "old", .role = "slave"});
  Play(1, kOld);
  ASSERT_EQ(dials(), 3u);
  Play(2, kOld);
  EXPECT_EQ(TrustOfNextAcquire(1), "1");
}

}  // namespace
}  // namespace distlock::store
