// SPDX-License-Identifier: Apache-2.0
//
// The store of a Cluster in virtual time, with nodes played by the test.
#include "store/cluster/cluster_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "fake_network.h"
#include "store/redis/error_class.h"
#include "store/redis/keys.h"
#include "store/redis/reply_code.h"
#include "store/redis/script_caller.h"
#include "store/text.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The other end of every connection to one node.
struct PlayedNode {
  Slot first = 0, last = 0;
  std::string id;
  bool has_slots = true;
  bool alone = false;                         // it names only itself
  bool deaf = false;                          // nobody accepts connections
  std::string answer = "NOREPLICAS not now";  // an error, to every script that is not of the list below
  bool poisoned = false;                      // refuses every script
  bool knows_ssubscribe = true;
  std::string refuses_spublish;  // why; "": it does not
  int asked_for_slots = 0;
};

class ClusterStoreTest : public testing::Test, public StoreListener {
 protected:
  ClusterStoreTest() {
    played_["a"] = {.first = 0, .last = 8191, .id = "0"};
    played_["b"] = {.first = 8192, .last = 16383, .id = "8192"};
  }

  void Make() {
    StoreOptions options;
    options.url = *ParseStoreUrl("redis+cluster://a,b");
    options.locks.broker_id = "00000000000000b1";
    options.on_problem = [this](const absl::Status& why) { problems_.emplace_back(why.message()); };
    options.on_warning = [this](const std::string& text) { warnings_.push_back(text); };
    store_ = std::make_unique<ClusterStore>(net_.network, options);
    store_->Start(this);
    Pass(milliseconds(50));
  }

  void OnStoreInput(core::Input&& input) override {
    if (const auto* up = std::get_if<core::StoreUp>(&input)) {
      up_ = true;
      renews_ += up->renew_all;
    }
    if (auto* reply = std::get_if<core::StoreReply>(&input)) replies_.push_back(std::move(*reply));
    if (const auto* notice = std::get_if<core::GrantNotice>(&input)) notices_.push_back(*notice);
  }

  // Time passes in steps of a millisecond, and all nodes answer within one.
  void Pass(core::Duration by) {
    for (const core::Instant until = net_.timers->Now() + by; net_.timers->Now() < until;) {
      net_.timers->Advance(milliseconds(1));
      for (size_t i = 0; i < net_.dialer->dialed.size(); ++i) Answer(i);
    }
  }

  // Asks for a lock of that node, and returns the words of the command that went out for it.
  std::vector<std::string> Acquire(const std::string& host) { return Acquire(LockOf(host), host); }
  // The same, for a lock that the store is to ask that node for.
  std::vector<std::string> Acquire(const core::LockName& name, const std::string& host) {
    store_->Submit(core::StoreAcquire{.op = ++op_, .name = name, .ttl = seconds(9)});
    store_->Flush();
    std::vector<std::string> words;
    for (size_t i = 0; i < net_.dialer->dialed.size(); ++i) {
      const FakeTransport& wire = *net_.dialer->dialed[i];
      if (!wire.open() || i >= answered_.size() || answered_[i] == wire.commands.size()) continue;
      EXPECT_EQ(net_.dialer->addresses[i].host, host);
      const ReplyPtr argv = Parse(wire.commands.back());
      for (size_t word = 0; word < argv->elements; ++word) words.emplace_back(Text(*argv->element[word]));
    }
    Pass(milliseconds(2));
    return words;
  }
  // What the last answer says of why the command was not run; "": it says another thing.
  std::string Cause() const {
    const auto* failed = replies_.empty() ? nullptr : std::get_if<core::StoreFailed>(&replies_.back().outcome);
    return failed == nullptr ? "" : failed->cause;
  }
  core::LockName LockOf(const std::string& host) const {
    for (int i = 0;; ++i) {
      auto name = core::LockName::Encode("ns", Cat("k", i));
      const Slot slot = SlotOf(Cat("dl:{", name.escaped(), "}"));
      if (slot >= played_.at(host).first && slot <= played_.at(host).last) return name;
    }
  }
  size_t Open(const std::string& host) const {
    size_t open = 0;
    for (size_t i = 0; i < net_.dialer->dialed.size(); ++i) {
      open += net_.dialer->addresses[i].host == host && net_.dialer->dialed[i]->open();
    }
    return open;
  }
  size_t Dials(const std::string& host) const {
    return static_cast<size_t>(std::ranges::count(net_.dialer->addresses, host, &ServerAddress::host));
  }
  // A message on the channel that the store listens to at that node.
  void Say(const std::string& host, const std::string& kind, const std::string& payload) {
    for (size_t i = 0; i < net_.dialer->dialed.size(); ++i) {
      FakeTransport& wire = *net_.dialer->dialed[i];
      if (!wire.open() || net_.dialer->addresses[i].host != host || !channels_.contains(i)) continue;
      wire.Reply(ArrayOf({kind, channels_[i], payload}));
    }
  }

  // To the channel of that slot.
  bool Listens(const std::string& host, Slot slot) {
    for (size_t i = 0; i < net_.dialer->dialed.size(); ++i) {
      const bool there = net_.dialer->dialed[i]->open() && net_.dialer->addresses[i].host == host;
      if (there && channels_.contains(i) && channels_[i].ends_with(TagOf(slot))) return true;
    }
    return false;
  }

  FakeNetwork net_;
  std::map<std::string, PlayedNode> played_;
  std::unique_ptr<ClusterStore> store_;
  bool up_ = false;
  int renews_ = 0;
  std::vector<core::StoreReply> replies_;
  std::vector<core::GrantNotice> notices_;
  std::vector<std::string> problems_, warnings_;
  std::string node_timeout_ = "5000", full_coverage_ = "no";

 private:
  void Answer(size_t i) {
    const auto wire = net_.dialer->dialed[i];
    if (answered_.size() <= i) answered_.resize(i + 1, 0);
    if (played_.at(net_.dialer->addresses[i].host).deaf) return;
    if (wire->open() && connected_.insert(i).second) wire->Connect();
    while (wire->open() && answered_[i] < wire->commands.size()) {
      const std::string command = wire->commands[answered_[i]++];
      wire->Reply(AnswerOf(i, command, played_.at(net_.dialer->addresses[i].host)));
    }
  }

  std::string AnswerOf(size_t i, const std::string& command, PlayedNode& node) {
    const ReplyPtr argv = Parse(command);
    const auto word = [&](size_t n) { return Text(*argv->element[n]); };
    if (word(0) == "INFO") {
      return BulkOf(Cat("redis_version:7.0.15\r\nredis_mode:cluster\r\nrun_id:", node.id, "\r\nrole:master\r\n",
                        "maxmemory_policy:noeviction\r\naof_enabled:1\r\nloading:0\r\n"));
    }
    if (word(0) == "CLUSTER") return word(1) == "SLOTS" ? Slots(node) : BulkOf(Cat("id", node.id));
    if (word(0) == "CONFIG" && word(2) == "save") return ArrayOf({"save", ""});
    if (word(0) == "CONFIG") {
      return ArrayOf({"cluster-node-timeout", node_timeout_, "cluster-require-full-coverage", full_coverage_});
    }
    if (word(0) == "SSUBSCRIBE" && !node.knows_ssubscribe) return "-ERR unknown command 'SSUBSCRIBE'\r\n";
    if (word(0) == "SSUBSCRIBE" || word(0) == "SUBSCRIBE") {
      channels_[i] = std::string(word(1));
      return Cat("*3\r\n", BulkOf(word(0) == "SUBSCRIBE" ? "subscribe" : "ssubscribe"), BulkOf(word(1)), ":1\r\n");
    }
    if (word(0) == "SCRIPT") {
      for (const lua::ScriptSource* script : AllScripts()) {
        if (script->body == word(2)) return BulkOf(script->sha1);
      }
    }
    if (word(0) == "PUBLISH") return ":1\r\n";
    if (word(0) == "TIME") return ArrayOf({"1700000000", "5"});
    if (word(0) != "EVALSHA") return "+OK\r\n";
    if (node.poisoned) return "-ERR Attempted to access a non local key in a cluster node\r\n";
    if (word(1) != lua::kProbe.sha1) return Cat("-", node.answer, "\r\n");
    return Cat("*4\r\n:", static_cast<int>(kProbed), "\r\n", BulkOf("1700000000000005"), ":",
               node.refuses_spublish.empty() ? 1 : -1, "\r\n", BulkOf(node.refuses_spublish));
  }

  std::string Slots(PlayedNode& asked) {
    ++asked.asked_for_slots;
    const auto is_named = [&](const auto& one) {
      return one.second.has_slots && (!asked.alone || &one.second == &asked);
    };
    std::string text = Cat("*", std::ranges::count_if(played_, is_named), "\r\n");
    for (const auto& one : played_) {
      if (!is_named(one)) continue;
      const auto& [host, node] = one;
      Append(text, "*3\r\n:", node.first, "\r\n:", node.last, "\r\n*3\r\n", BulkOf(host), ":6379\r\n",
             BulkOf(Cat("id", node.id)));
    }
    return text;
  }

  std::set<size_t> connected_;
  std::vector<size_t> answered_;
  std::map<size_t, std::string> channels_;  // by connection
  core::OpId op_ = 0;
};

TEST_F(ClusterStoreTest, ConnectsTwiceToEachPrimary) {
  Make();
  Pass(seconds(5));
  EXPECT_TRUE(up_);
  EXPECT_EQ(Open("a"), 2u);
  EXPECT_EQ(Open("b"), 2u);
  EXPECT_TRUE(problems_.empty()) << problems_[0];
}

// ---- A node that names itself ----

TEST_F(ClusterStoreTest, ANodeThatAnswersMovedToItselfGetsANewConnection) {
  Make();
  Pass(seconds(5));
  const Slot slot = SlotOf(Cat("dl:{", LockOf("a").escaped(), "}"));
  played_["a"].answer = Cat("MOVED ", slot, " a:6379");
  const size_t dials = Dials("a"), dials_of_b = Dials("b");
  const int asked = played_["a"].asked_for_slots + played_["b"].asked_for_slots;
  Acquire("a");
  ASSERT_EQ(replies_.size(), 1u) << "one answer, instead of round after round";
  EXPECT_NE(Cause().find("MOVED"), std::string::npos) << Cause();
  played_["a"].answer = "NOREPLICAS not now";
  Pass(milliseconds(200));
  EXPECT_EQ(Dials("a"), dials + 1);
  EXPECT_EQ(Open("a"), 2u);
  EXPECT_EQ(Dials("b"), dials_of_b);
  EXPECT_GT(played_["a"].asked_for_slots + played_["b"].asked_for_slots, asked) << "the map is in doubt";
  Acquire("a");
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << Cause();
}

TEST_F(ClusterStoreTest, ANodeThatNamesItselfAloneAtTheStartIsNotTheOnlyOneThatIsAsked) {
  played_["a"].alone = true;
  Make();
  Pass(seconds(2));
  EXPECT_EQ(Open("a"), 2u);
  EXPECT_EQ(Open("b"), 2u) << "found through the other seed";
  Acquire("b");
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << Cause();
}

TEST_F(ClusterStoreTest, ASeedThatDoesNotAnswerKeepsNobodyFromBeingAsked) {
  played_["a"].alone = true;
  played_["b"].deaf = true;
  Make();
  Pass(seconds(5));
  EXPECT_GE(played_["a"].asked_for_slots, 4);
  played_["b"].deaf = false;
  Pass(seconds(2));
  EXPECT_EQ(Open("b"), 2u);
}

TEST_F(ClusterStoreTest, WhatIsMovedIsSentWhereItIsNowAndSoIsWhatComesNext) {
  Make();
  Pass(seconds(5));
  played_["a"].alone = played_["b"].alone = true;  // no map is believed, and only MOVED tells of it
  const core::LockName lock = LockOf("a");
  played_["a"].answer = Cat("MOVED ", SlotOf(Cat("dl:{", lock.escaped(), "}")), " b:6379");
  EXPECT_FALSE(Acquire(lock, "a").empty());
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << "of b, at the first try: " << Cause();
  EXPECT_FALSE(Acquire(lock, "b").empty());
}

// A failover and another one back: too short for the question of each second to notice.
TEST_F(ClusterStoreTest, ANodeThatHasSlotsAgainIsAskedAnewWhoItIs) {
  Make();
  Pass(seconds(5));
  const size_t dials = Dials("b");
  const auto change = [&](Slot last_of_a, bool b_has_slots) {
    played_["a"].last = last_of_a;
    played_["b"].has_slots = b_has_slots;
    played_["a"].answer = "CLUSTERDOWN for a moment";
    Acquire("a");
    Pass(milliseconds(500));
  };
  change(16383, false);
  EXPECT_EQ(Open("b"), 2u) << "it is left later";
  EXPECT_EQ(Dials("b"), dials);
  EXPECT_EQ(renews_, 0);
  change(8191, true);
  EXPECT_EQ(Open("b"), 2u);
  EXPECT_EQ(Dials("b"), dials + 1);
  EXPECT_EQ(renews_, 1) << "of all leases";
}

// ---- Hand-offs without channels of shards ----

TEST_F(ClusterStoreTest, ChannelsOfShardsAreUsedAndTheirListenersCounted) {
  Make();
  Pass(seconds(5));
  EXPECT_EQ(Acquire("a").at(7 + 9), "1");
  Say("a", "smessage", Cat(LockOf("a").escaped(), "\n1700000000000005;0"));
  EXPECT_EQ(notices_.size(), 1u);
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
}

TEST_F(ClusterStoreTest, AChannelIsThatOfASlotThatTheNodeHasNow) {
  Make();
  Pass(seconds(5));
  EXPECT_TRUE(Listens("b", 8192));
  played_["a"].last = 8000;
  played_["b"].first = 8001;
  played_["a"].answer = "CLUSTERDOWN for a moment";
  Acquire("a");
  Pass(seconds(1));
  EXPECT_TRUE(Listens("b", 8001));
  EXPECT_TRUE(Listens("a", 0));
}

TEST_F(ClusterStoreTest, AServerWithoutSsubscribeIsListenedToByPublishWhoseCountIsNotTrusted) {
  for (auto& [host, node] : played_) node.knows_ssubscribe = false;
  Make();
  Pass(seconds(5));
  EXPECT_TRUE(up_);
  EXPECT_EQ(Acquire("a").at(7 + 9), "0");
  Say("a", "message", Cat(LockOf("a").escaped(), "\n1700000000000005;0"));
  EXPECT_EQ(notices_.size(), 1u);
  ASSERT_EQ(warnings_.size(), 1u) << "once, not once a node";
  EXPECT_NE(warnings_[0].find("does not know SSUBSCRIBE"), std::string::npos) << warnings_[0];
}

TEST_F(ClusterStoreTest, SoIsOneWhoseScriptsMayNotPublishToAShard) {
  played_["b"].refuses_spublish = "ERR Script attempted to access a non local key in a cluster node";
  Make();
  Pass(seconds(5));
  EXPECT_EQ(Acquire("b").at(7 + 9), "0");
  EXPECT_EQ(Acquire("a").at(7 + 9), "1") << "each node by itself";
  Say("b", "message", Cat(LockOf("b").escaped(), "\n1700000000000005;0"));
  EXPECT_EQ(notices_.size(), 1u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("non local key"), std::string::npos) << warnings_[0];
}

// ---- A node that refuses every script ----

TEST_F(ClusterStoreTest, ANodeWhoseScriptsSomebodyBrokeIsNamed) {
  Make();
  Pass(seconds(5));
  played_["a"].poisoned = true;
  Acquire("a");
  Pass(milliseconds(10));
  ASSERT_FALSE(problems_.empty());
  EXPECT_NE(problems_.back().find("redis://a:6379"), std::string::npos) << problems_.back();
  EXPECT_NE(problems_.back().find(kRefusesAllScripts), std::string::npos) << problems_.back();
  Acquire("a");
  EXPECT_EQ(Cause(), kRefusesAllScripts) << "and it is known that nothing has run";
  Acquire("b");
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << "others go on: " << Cause();
}

TEST_F(ClusterStoreTest, SoIsOneThatWasBrokenBeforeWeCame) {
  played_["a"].poisoned = true;
  Make();
  Pass(seconds(2));
  EXPECT_TRUE(up_) << "with the other node";
  ASSERT_FALSE(problems_.empty());
  EXPECT_NE(problems_[0].find("a:6379"), std::string::npos) << problems_[0];
  EXPECT_NE(problems_[0].find(kRefusesAllScripts), std::string::npos) << problems_[0];
  played_["a"].poisoned = false;  // it was restarted
  Pass(seconds(5));
  Acquire("a");
  EXPECT_NE(Cause().find("NOREPLICAS"), std::string::npos) << Cause();
}

// While a slot is on its way, one script may be refused with the same words.
TEST_F(ClusterStoreTest, OneScriptThatIsRefusedForAForeignKeyMakesNoBrokenNode) {
  Make();
  Pass(seconds(5));
  played_["a"].answer =
      "ERR Script attempted to access a non local key in a cluster node script: 1, on @user_script:1.";
  Acquire("a");
  Acquire("a");
  for (const std::string& problem : problems_) {
    EXPECT_EQ(problem.find(kRefusesAllScripts), std::string::npos) << problem;
  }
  ASSERT_EQ(replies_.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<core::StoreUnknown>(replies_[1].outcome)) << "a part of it may have run";
}

// ---- What is said at the start ----

TEST_F(ClusterStoreTest, WarnsOnceOfLeasesThatNoFailoverSparesAndOfFullCoverage) {
  node_timeout_ = "15000";
  full_coverage_ = "yes";
  Make();
  Pass(seconds(30));
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_NE(warnings_[0].find("set --default-ttl to at least 18000 ms"), std::string::npos) << warnings_[0];
  EXPECT_NE(warnings_[1].find("cluster-require-full-coverage is yes"), std::string::npos) << warnings_[1];
}

}  // namespace
}  // namespace distlock::store
