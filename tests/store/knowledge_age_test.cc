// SPDX-License-Identifier: Apache-2.0
//
// How old what a broker knows of a server may be: a node in virtual time, with a server played by the test that is held
// off no more. While the broker stands still the server may be replaced, and be back with older data.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fake_network.h"
#include "store/redis/script_caller.h"
#include "store/single/single_store.h"
#include "store/text.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kEpochUs = 1'700'000'000'000'000;  // of the server's clock, when the broker's shows 0
const std::string kNone = "none";
const std::string kNotKnown = "9007199254740991;9007199254740991;9007199254740991";

std::string BulkOf(std::string_view text) { return Cat("$", text.size(), "\r\n", text, "\r\n"); }

class KnowledgeAgeTest : public testing::Test, public StoreListener {
 protected:
  KnowledgeAgeTest() {
    store_.Start(this);
    Play();
    Play();
  }

  void OnStoreInput(core::Input&& input) override {
    ups_ += std::holds_alternative<core::StoreUp>(input);
    downs_ += std::holds_alternative<core::StoreDown>(input);
    channel_ups_ += std::holds_alternative<core::ChannelUp>(input);
  }

  // The server answers all that was sent to it until `until`; by default everything.
  void Play(core::Instant until = core::kNever) {
    const auto& dialed = net_.dialer->dialed;
    Note();
    for (size_t i = 0; i < dialed.size(); ++i) {
      if (played_[i] == 0 && dialed[i]->open()) dialed[i]->Connect();
      Note();
      while (dialed[i]->open() && played_[i] < dialed[i]->commands.size() && sent_[i][played_[i]] <= until) {
        dialed[i]->Reply(AnswerOf(dialed[i]->commands[played_[i]++]));
        Note();
      }
    }
    net_.timers->Advance(core::Duration::zero());
    Note();
  }
  void Pass(core::Duration time, core::Duration late = {}) {
    for (core::Duration passed{}; passed < time; passed += milliseconds(100)) {
      net_.timers->Advance(milliseconds(100));
      Play(net_.timers->Now() - late);
    }
  }

  void Submit(std::string_view key) {
    if (!std::exchange(submitted_, true)) before_ = commands().size();
    store_.Submit(core::StoreAcquire{.op = ++op_, .name = core::LockName::Encode("ns", key), .ttl = seconds(9)});
  }
  // The hold-offs that the submitted acquires and batches carry; kNone: there is none, for long enough yet.
  std::vector<std::string> Flushed() {
    store_.Flush();
    submitted_ = false;
    std::vector<std::string> told;
    for (size_t i = before_; i < commands().size(); ++i) {
      const ReplyPtr argv = Parse(commands()[i]);
      if (Text(*argv->element[0]) != "EVALSHA") continue;
      const std::string_view script = Text(*argv->element[1]);
      if (script == lua::kBatch.sha1) {
        const size_t keys = std::stoul(std::string(Text(*argv->element[2])));
        const std::string_view common = Text(*argv->element[3 + keys + 1]);
        told.push_back("batch, " + Shown(common.substr(common.rfind(';') + 1)));
      }
      if (script == lua::kAcquire.sha1) told.push_back(Shown(Text(*argv->element[21])));
    }
    return told;
  }
  std::vector<std::string> Asked() {
    Submit("k");
    return Flushed();
  }
  // A caller renews two leases.
  void Renew(core::Duration ttl, bool answered = true) {
    core::StoreRenew renew{.op = ++op_};
    for (const std::string_view key : {"k", "l"}) {
      renew.items.push_back({.name = core::LockName::Encode("ns", key), .owner = {1}, .token = 5, .ttl = ttl});
    }
    store_.Submit(std::move(renew));
    store_.Flush();
    if (answered) return Play();
    net_.dialer->dialed.at(link_)->Drop("gone");
    Pass(seconds(2));
    link_ = LatestLink();
  }
  // The ttls that the next census tells.
  std::string Said() {
    Pass(seconds(2));
    std::string said;
    for (const std::string& command : commands()) {
      const ReplyPtr argv = Parse(command);
      if (argv->elements > 15 && Text(*argv->element[1]) == lua::kCensus.sha1) said = Text(*argv->element[15]);
    }
    return said;
  }
  // Since when the settings are known to keep each write, by the latest census, and when that was sent.
  std::pair<int64_t, int64_t> Kept() {
    Pass(seconds(2));
    std::pair<int64_t, int64_t> kept;
    for (size_t i = 0; i < commands().size(); ++i) {
      const ReplyPtr argv = Parse(commands()[i]);
      if (argv->elements < 20 || Text(*argv->element[1]) != lua::kCensus.sha1) continue;
      kept = {std::stoll(std::string(Text(*argv->element[19]))), UsOf(sent_[link_][i])};
    }
    return kept;
  }
  // For the latest connection that is no channel's.
  const std::vector<std::string>& commands() const { return net_.dialer->dialed.at(link_)->commands; }

  size_t LatestLink() const {
    const auto& dialed = net_.dialer->dialed;
    const auto has_scripts = [](const std::string& command) { return Contains(command, "EVALSHA"); };
    const auto found = std::ranges::find_if(dialed.rbegin(), dialed.rend(), [&](const auto& one) {
      return std::ranges::any_of(one->commands, has_scripts);
    });
    return static_cast<size_t>(dialed.rend() - found) - 1;
  }

  FakeNetwork net_;
  std::string replid_ = "one";
  SingleStore store_{net_.network, Options()};
  int ups_ = 0;
  int downs_ = 0;
  int channel_ups_ = 0;
  size_t link_ = 1;  // the connection for commands
  core::Duration takes_ = milliseconds(1);
  std::string appendfsync_;  // "": CONFIG GET shows nothing
  std::string renewed_;      // what a script says of the second lease; "": it is refused

 private:
  static StoreOptions Options() {
    StoreOptions options;
    options.locks.broker_id = "00000000000000b1";
    options.locks.hold_off.kind = HoldOffOptions::Kind::kAuto;
    options.locks.hold_off.longest_ttl = seconds(9);
    return options;
  }

  static int64_t UsOf(core::Instant at) {
    return kEpochUs + std::chrono::floor<std::chrono::microseconds>(at.time_since_epoch()).count();
  }

  // When each command was sent.
  void Note() {
    const auto& dialed = net_.dialer->dialed;
    played_.resize(dialed.size(), 0);
    sent_.resize(dialed.size());
    for (size_t i = 0; i < dialed.size(); ++i) sent_[i].resize(dialed[i]->commands.size(), net_.timers->Now());
  }

  std::string AnswerOf(const std::string& command) const {
    const ReplyPtr argv = Parse(command);
    const std::string_view verb = Text(*argv->element[0]);
    const int64_t us = UsOf(net_.timers->Now());
    if (verb == "INFO") {
      return BulkOf(
          Cat("redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:r\r\nrole:master\r\nmaster_replid:", replid_,
              "\r\nsecond_repl_offset:-1\r\nconnected_slaves:0\r\nmaxmemory_policy:noeviction\r\n"
              "aof_enabled:1\r\nloading:0\r\n"));
    }
    if (verb == "SUBSCRIBE") return Cat("*3\r\n", BulkOf("subscribe"), BulkOf(Text(*argv->element[1])), ":1\r\n");
    if (verb == "SCRIPT") {
      for (const lua::ScriptSource* script : AllScripts()) {
        if (script->body == Text(*argv->element[2])) return BulkOf(script->sha1);
      }
    }
    if (verb == "PUBLISH") return ":1\r\n";
    if (verb == "TIME") return Cat("*2\r\n", BulkOf(Cat(us / 1'000'000)), BulkOf(Cat(us % 1'000'000)));
    if (verb == "CONFIG" && Text(*argv->element[2]) == "*append*" && !appendfsync_.empty()) {
      return Cat("*6\r\n", BulkOf("appendonly"), BulkOf("yes"), BulkOf("appendfsync"), BulkOf(appendfsync_),
                 BulkOf("no-appendfsync-on-rewrite"), BulkOf("no"));
    }
    if (verb == "CONFIG") return "*0\r\n";
    if (verb == "EVALSHA" && Text(*argv->element[1]) == lua::kCensus.sha1) {
      return Cat("*7\r\n:18\r\n", BulkOf(Cat(us)), BulkOf("1"), BulkOf("9000"), BulkOf("9000"), BulkOf("0"),
                 BulkOf(""));
    }
    if (verb == "EVALSHA" && Text(*argv->element[1]) == lua::kRenew.sha1 && !renewed_.empty()) {
      return Cat("*3\r\n:12\r\n", BulkOf(Cat(us)), BulkOf(Cat("0", renewed_)));
    }
    if (verb == "EVALSHA") return "-NOREPLICAS not now\r\n";
    return "+OK\r\n";
  }

  std::vector<size_t> played_;
  std::vector<std::vector<core::Instant>> sent_;
  std::string Shown(std::string_view hold_off) const {
    if (Contains(hold_off, ";")) return std::string(hold_off);
    const auto until = core::Instant(std::chrono::microseconds(std::stoll(std::string(hold_off)) - kEpochUs));
    return until >= net_.timers->Now() + takes_ ? kNone : Cat("none until ", hold_off);
  }

  core::OpId op_ = 0;
  bool submitted_ = false;
  size_t before_ = 0;  // commands that were sent before the first that was submitted
};

TEST_F(KnowledgeAgeTest, ABrokerThatStoodStillGrantsNothingNewBeforeTheServerHasAnswered) {
  ASSERT_EQ(ups_, 1);
  Pass(seconds(10));
  EXPECT_EQ(Asked(), std::vector{kNone});
  net_.timers->Pause(milliseconds(2'500));
  EXPECT_EQ(Asked(), std::vector{kNotKnown});
  const int before = channel_ups_;
  Play();
  EXPECT_EQ(Asked(), std::vector{kNone});
  EXPECT_EQ(channel_ups_, before + 1) << "who was told to wait is to look again";
}

// By the server's clock, so that a copy that runs late is not believed of the settings of its time.
TEST_F(KnowledgeAgeTest, TheCensusSaysAtWhatTimeTheSettingsKeptEachWrite) {
  EXPECT_EQ(Kept().first, 0) << "they are not known";
  appendfsync_ = "always";
  const auto [kept, sent] = Kept();
  EXPECT_LT(kept, sent);
  EXPECT_GT(kept, sent - 1'100'000) << "as of the census before";
  appendfsync_ = "everysec";
  EXPECT_EQ(Kept().first, 0);
}

TEST_F(KnowledgeAgeTest, WhatPiledUpMeanwhileIsToldToo) {
  Pass(seconds(10));
  Submit("a");
  Submit("b");
  net_.timers->Pause(seconds(30));
  Submit("c");
  EXPECT_EQ(Flushed(), (std::vector{kNotKnown, kNotKnown, kNotKnown})) << "and no batch, which knows no hold-off";
  Play();
  Submit("a");
  Submit("b");
  EXPECT_EQ(Flushed(), std::vector<std::string>{"batch, none"});
}

TEST_F(KnowledgeAgeTest, OtherDataBehindTheSameConnectionAreLeft) {
  Pass(seconds(10));
  net_.timers->Pause(seconds(30));
  replid_ = "another";
  EXPECT_EQ(Asked(), std::vector{kNotKnown});
  Play();
  EXPECT_EQ(downs_, 1);
}

// Its census takes two round trips, and the next one would begin only a second later. And each command is as long on
// its way as the answers are.
TEST_F(KnowledgeAgeTest, AStoreThatIsOnlySlowCostsNothing) {
  takes_ = milliseconds(400);
  for (int i = 0; i < 300; ++i) {
    Pass(milliseconds(100), takes_);
    ASSERT_EQ(Asked(), std::vector{kNone}) << i;
  }
  EXPECT_EQ(downs_, 0);
}

// The connection is made anew after a second of silence, and its first census is fresh.
TEST_F(KnowledgeAgeTest, AStoreThatStoodStillIsAskedAnewAtOnce) {
  Pass(seconds(10));
  Submit("k");
  Flushed();
  Pass(seconds(3), seconds(60));
  EXPECT_EQ(downs_, 1);
  Pass(seconds(1));
  EXPECT_EQ(ups_, 2);
  link_ = LatestLink();
  EXPECT_EQ(Asked(), std::vector{kNone});
}

// Lease ids are not signed, so a caller may name any ttl.
TEST_F(KnowledgeAgeTest, OnlyTheTtlOfARenewalThatMayHaveRunIsToldToOthers) {
  const std::string own = "9000:0", longer = "20000:";
  EXPECT_EQ(Said(), own);
  renewed_ = "0";
  Renew(seconds(20));
  EXPECT_EQ(Said(), own) << "it holds nothing";
  renewed_ = "";
  Renew(seconds(20));
  EXPECT_EQ(Said(), own) << "it has not run";
  renewed_ = "1";
  Renew(seconds(20));
  EXPECT_TRUE(Contains(Said(), longer));
  Pass(seconds(35));
  EXPECT_EQ(Said(), own);
  Renew(seconds(20), /*answered=*/false);
  EXPECT_TRUE(Contains(Said(), longer)) << "it may have run";
}

TEST_F(KnowledgeAgeTest, AHoldOffThatIsKnownCountsForAsLong) {
  constexpr core::Instant kAsked(seconds(100));
  constexpr core::StoreTime kSince{kEpochUs}, kUntil{kEpochUs + 2'000'000};
  Census census({.kind = HoldOffOptions::Kind::kAuto, .longest_ttl = seconds(9)}, 0);
  census.OnSame(kAsked);
  EXPECT_EQ(census.known_until(), kAsked + seconds(2));
  census.Meet({.identity = "a:1"});
  EXPECT_EQ(census.ScriptArgument(kAsked, kUntil), kNotKnown) << "it does not end in any case";
  census.OnCount({.time = kSince, .since = kSince, .hold_off = seconds(9), .longest_ttl = seconds(9)}, kAsked);
  EXPECT_EQ(census.ScriptArgument(kAsked, kUntil), Cat(kSince.us + 9'000'000, ";", kUntil.us, ";", kSince.us));
}

}  // namespace
}  // namespace distlock::store
