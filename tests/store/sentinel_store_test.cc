// SPDX-License-Identifier: Apache-2.0
//
// The store behind sentinels, in virtual time, with sentinels and servers played by the test.
#include "store/sentinel/sentinel_store.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "fake_network.h"
#include "store/redis/script_caller.h"
#include "store/text.h"

namespace distlock::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The other end of every connection to one address.
struct Played {
  bool is_sentinel = false;
  bool refuses = false;  // connections, new and old
  bool silent = false;   // takes commands and answers nothing
  std::string role = "master";
  std::string refusal;  // of every script
  // For a sentinel: the host of the primary that it shows, "" for none of that name.
  std::string primary;
  uint64_t epoch = 1;
  int replicas = 2;
  std::string follows = "a";  // whom its replica r2 follows
};

class SentinelStoreTest : public testing::Test, public StoreListener {
 protected:
  SentinelStoreTest() {
    for (const std::string host : {"s1", "s2", "s3"}) played_[host] = {.is_sentinel = true, .primary = "a"};
    for (const std::string host : {"a", "b"}) played_[host] = {};
  }

  void Make(StoreOptions options = {}) {
    options.url = *ParseStoreUrl("redis+sentinel://:pw@s1,s2,s3/locks");
    options.locks.broker_id = "00000000000000b1";
    options.on_problem = [this](const absl::Status& why) { problems_.push_back(why); };
    options.on_warning = [this](const std::string& text) { warnings_.push_back(text); };
    store_ = std::make_unique<SentinelStore>(net_.network, net_.network, options);
    store_->Start(this);
    Pass(milliseconds(10));
  }

  void OnStoreInput(core::Input&& input) override {
    if (std::holds_alternative<core::StoreUp>(input)) {
      up_ = true;
      ups_.push_back(net_.timers->Now());
    }
    if (std::holds_alternative<core::StoreDown>(input)) up_ = false;
    if (auto* reply = std::get_if<core::StoreReply>(&input)) replies_.push_back(std::move(*reply));
  }

  // Time passes in steps of a millisecond, and everybody answers within one.
  void Pass(core::Duration by) {
    for (const core::Instant until = net_.timers->Now() + by; net_.timers->Now() < until;) {
      net_.timers->Advance(milliseconds(1));
      Answer();
    }
  }

  // Hosts with a connection that is open now.
  std::vector<std::string> OpenHosts() const {
    std::vector<std::string> hosts;
    for (size_t i = 0; i < net_.dialer->dialed.size(); ++i) {
      if (net_.dialer->dialed[i]->open()) hosts.push_back(net_.dialer->addresses[i].host);
    }
    std::sort(hosts.begin(), hosts.end());
    return hosts;
  }
  size_t Open(const std::string& host) const {
    const auto hosts = OpenHosts();
    return static_cast<size_t>(std::count(hosts.begin(), hosts.end(), host));
  }

  void Submit() {
    store_->Submit(core::StoreAcquire{.op = ++op_, .name = core::LockName::Encode("ns", "k"), .ttl = seconds(9)});
    store_->Flush();
  }

  // `host` tells all who listen that the primary has changed.
  void SaySwitch(const std::string& host) {
    for (size_t i = 0; i < net_.dialer->dialed.size(); ++i) {
      FakeTransport& wire = *net_.dialer->dialed[i];
      if (!wire.open() || net_.dialer->addresses[i].host != host || wire.commands.size() < 2) continue;
      if (!Contains(wire.commands[1], "SUBSCRIBE") && !Contains(wire.commands.back(), "SUBSCRIBE")) continue;
      wire.Reply(ArrayOf({"message", "+switch-master", "locks a 6379 b 6379"}));
    }
  }

  void FailOver(const std::vector<std::string>& to_sentinels) {
    for (const std::string& host : to_sentinels) {
      played_[host].primary = "b";
      played_[host].epoch = 2;
    }
  }

  FakeNetwork net_;
  std::map<std::string, Played> played_;
  std::unique_ptr<SentinelStore> store_;
  bool up_ = false;
  std::vector<core::Instant> ups_;
  std::vector<core::StoreReply> replies_;
  std::vector<absl::Status> problems_;
  std::vector<std::string> warnings_;

 private:
  void Answer() {
    for (size_t i = 0; i < net_.dialer->dialed.size(); ++i) {
      const auto wire = net_.dialer->dialed[i];
      if (answered_.size() <= i) answered_.resize(i + 1, 0);
      if (!wire->open()) continue;
      const Played& server = played_[net_.dialer->addresses[i].host];
      if (server.refuses) {
        wire->Drop("connection refused");
        continue;
      }
      if (server.silent) continue;
      if (connected_.insert(i).second) wire->Connect();
      while (wire->open() && answered_[i] < wire->commands.size()) {
        wire->Reply(AnswerOf(wire->commands[answered_[i]++], server));
      }
    }
  }

  static std::string AnswerOf(const std::string& command, const Played& server) {
    const ReplyPtr argv = Parse(command);
    const std::string_view verb = Text(*argv->element[0]);
    if (verb == "SUBSCRIBE") return Cat("*3\r\n", BulkOf("subscribe"), BulkOf(Text(*argv->element[1])), ":1\r\n");
    if (verb == "SENTINEL") return OfSentinel(Text(*argv->element[1]), server);
    if (verb == "INFO") {
      return BulkOf(Cat("redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:x\r\nrole:", server.role,
                        "\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\nloading:0\r\n"));
    }
    if (verb == "SCRIPT") {
      for (const lua::ScriptSource* script : AllScripts()) {
        if (script->body == Text(*argv->element[2])) return BulkOf(script->sha1);
      }
    }
    if (verb == "PUBLISH") return ":1\r\n";
    if (verb == "TIME") return ArrayOf({"1700000000", "5"});
    if (verb == "CONFIG") return ArrayOf({"save", ""});
    if (verb == "EVALSHA") return server.refusal.empty() ? "-NOREPLICAS not now\r\n" : Cat("-", server.refusal, "\r\n");
    return "+OK\r\n";
  }

  static std::string Replica(const std::string& host, const std::string& follows) {
    return ArrayOf({"ip", host, "port", "6379", "flags", "slave", "slave-priority", "100", "master-host", follows,
                    "master-port", "6379"});
  }

  static std::string OfSentinel(std::string_view verb, const Played& server) {
    if (verb == "MASTERS") return Cat("*1\r\n", ArrayOf({"name", "other"}));
    if (server.primary.empty()) return "-ERR No such master with that name\r\n";
    if (verb == "MASTER") {
      return ArrayOf({"name", "locks", "ip", server.primary, "port", "6379", "config-epoch", Cat(server.epoch),
                      "num-slaves", Cat(server.replicas), "down-after-milliseconds", "1000", "flags", "master"});
    }
    if (verb == "GET-MASTER-ADDR-BY-NAME") return ArrayOf({server.primary, "6379"});
    if (verb == "REPLICAS") return Cat("*2\r\n", Replica("r1", "a"), Replica("r2", server.follows));
    return "*0\r\n";
  }

  std::set<size_t> connected_;
  std::vector<size_t> answered_;
  core::OpId op_ = 0;
};

TEST_F(SentinelStoreTest, FindsThePrimaryAndStaysThere) {
  Make();
  Pass(seconds(30));
  EXPECT_TRUE(up_);
  EXPECT_EQ(ups_.size(), 1u);
  EXPECT_EQ(OpenHosts(), (std::vector<std::string>{"a", "a", "s1", "s1", "s2", "s2", "s3", "s3"}));
  EXPECT_TRUE(problems_.empty()) << problems_[0];
}

TEST_F(SentinelStoreTest, FollowsTheFirstSentinelThatSwitches) {
  Make();
  Pass(milliseconds(300));
  played_["a"].refuses = true;
  Pass(milliseconds(200));
  EXPECT_FALSE(up_);
  FailOver({"s2"});
  SaySwitch("s2");
  const core::Instant said = net_.timers->Now();
  Pass(milliseconds(50));
  EXPECT_TRUE(up_);
  EXPECT_LE(ups_.back() - said, milliseconds(20));
  EXPECT_EQ(Open("b"), 2u);
}

TEST_F(SentinelStoreTest, AFailoverIsFoundWithoutASwitchMessage) {
  Make();
  FailOver({"s3"});
  Pass(milliseconds(1100));
  EXPECT_TRUE(up_);
  EXPECT_EQ(Open("b"), 2u);
}

// A demoted primary may take writes for seconds more.
TEST_F(SentinelStoreTest, TheOldPrimaryIsLeftEvenThoughItAnswers) {
  Make();
  played_["a"].silent = true;  // what is sent now is never answered
  Submit();
  FailOver({"s1"});
  SaySwitch("s1");
  Pass(milliseconds(20));
  EXPECT_EQ(Open("a"), 0u);
  EXPECT_EQ(Open("b"), 2u);
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<core::StoreUnknown>(replies_[0].outcome)) << "its bytes had left";
}

TEST_F(SentinelStoreTest, APromotedOneThatIsNotReadyIsTriedEach100Ms) {
  Make();
  played_["b"].role = "slave";
  FailOver({"s1", "s2", "s3"});
  SaySwitch("s1");
  Pass(milliseconds(1500));
  EXPECT_FALSE(up_);
  played_["b"].role = "master";
  const core::Instant ready = net_.timers->Now();
  Pass(milliseconds(150));
  ASSERT_TRUE(up_);
  EXPECT_LE(ups_.back() - ready, milliseconds(110));
}

TEST_F(SentinelStoreTest, AServerThatIsNoPrimaryAnyMoreMakesTheSentinelsBeAsked) {
  Make();
  Pass(milliseconds(300));
  FailOver({"s1", "s2", "s3"});
  played_["a"].refusal = "READONLY You can't write against a read only replica.";
  Submit();
  Pass(milliseconds(200));
  EXPECT_TRUE(up_);
  EXPECT_EQ(Open("b"), 2u) << "although no second has passed since they were asked";
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<core::StoreFailed>(replies_[0].outcome));
}

TEST_F(SentinelStoreTest, LocksGoOnWithoutSentinels) {
  Make();
  for (const std::string host : {"s1", "s2", "s3"}) played_[host].refuses = true;
  Pass(seconds(60));
  EXPECT_TRUE(up_);
  EXPECT_EQ(ups_.size(), 1u);
  EXPECT_EQ(Open("a"), 2u);
  EXPECT_EQ(problems_.size(), 3u) << "each is told once";
  for (const std::string host : {"s1", "s2", "s3"}) played_[host].refuses = false;
  FailOver({"s1", "s2", "s3"});
  Pass(seconds(5));
  EXPECT_EQ(Open("b"), 2u);
}

TEST_F(SentinelStoreTest, AnUnknownNameIsToldWithTheNamesThatTheyKnow) {
  for (const std::string host : {"s1", "s2", "s3"}) played_[host].primary = "";
  Make();
  const auto told =
      std::find_if(problems_.begin(), problems_.end(), [](const auto& one) { return absl::IsNotFound(one); });
  ASSERT_NE(told, problems_.end());
  EXPECT_TRUE(Contains(View(told->message()), "the sentinels know: other")) << *told;
  EXPECT_FALSE(Contains(View(told->message()), "pw")) << *told;
}

TEST_F(SentinelStoreTest, WithoutAMajorityItSaysWhoIsMissing) {
  played_["s1"].refuses = true;
  played_["s2"].refuses = true;
  Make({.few_sentinels_suffice = false});
  Pass(seconds(5));
  EXPECT_FALSE(up_);
  ASSERT_FALSE(problems_.empty());
  const std::string_view text = View(problems_.back().message());
  EXPECT_TRUE(Contains(text, "1 of 3 sentinels answer, 2 must agree")) << text;
  EXPECT_TRUE(Contains(text, "s1:26379: connection refused")) << text;
}

TEST_F(SentinelStoreTest, APrimaryThatCannotBeReachedIsNamedByItsAddress) {
  played_["a"].refuses = true;
  Make();
  Pass(seconds(1));
  EXPECT_FALSE(up_);
  ASSERT_FALSE(problems_.empty());
  EXPECT_TRUE(Contains(View(problems_.back().message()), "the primary at a:6379: ")) << problems_.back();
  Submit();
  Pass(milliseconds(10));
  ASSERT_EQ(replies_.size(), 1u);
  const auto* failed = std::get_if<core::StoreFailed>(&replies_[0].outcome);
  ASSERT_NE(failed, nullptr);
  EXPECT_TRUE(Contains(failed->cause, "the primary at a:6379: ")) << failed->cause;
}

// It is cut off from the sentinels, and refuses since its replicas follow another one. When the cut heals it hears once
// more of a replica, and takes writes until it sees the end of that connection.
// Fails when one sentinel is enough: it may have been cut off together with that primary.
TEST_F(SentinelStoreTest, APrimaryThatLacksReplicasIsSentNothingBeforeAMajorityOfSentinelsNamesIt) {
  const auto cause = [this] {
    Submit();
    Pass(milliseconds(10));
    const auto* failed = replies_.empty() ? nullptr : std::get_if<core::StoreFailed>(&replies_.back().outcome);
    return failed == nullptr ? "" : failed->cause;
  };
  Make();
  for (const std::string host : {"s1", "s2", "s3"}) played_[host].silent = true;
  Pass(seconds(2));
  EXPECT_TRUE(Contains(cause(), "NOREPLICAS not now")) << "its own words";
  played_["a"].refusal = "MISCONF it was sent";
  EXPECT_TRUE(Contains(cause(), "no majority of the sentinels has named it since")) << cause();
  Pass(seconds(20));
  EXPECT_TRUE(Contains(cause(), "no majority of the sentinels has named it since")) << cause();
  played_["s2"].silent = false;  // it may have been cut off with the primary
  Pass(seconds(3));
  EXPECT_TRUE(Contains(cause(), "no majority of the sentinels has named it since")) << cause();
  for (const std::string host : {"s1", "s3"}) played_[host].silent = false;
  Pass(seconds(3));
  EXPECT_TRUE(Contains(cause(), "MISCONF it was sent")) << cause();
}

TEST_F(SentinelStoreTest, CommandsBeforeThePrimaryIsKnownAreNotSent) {
  for (auto& [host, one] : played_) one.refuses = true;
  Make();
  Submit();
  Pass(milliseconds(10));
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<core::StoreFailed>(replies_[0].outcome));
}

TEST_F(SentinelStoreTest, MoreConfirmationsThanReplicasAreAProblem) {
  Make({.wait_replicas = 3});
  ASSERT_FALSE(problems_.empty());
  EXPECT_TRUE(absl::IsFailedPrecondition(problems_[0])) << problems_[0];
}

// Just after a failover a sentinel may still show whom a replica followed before.
TEST_F(SentinelStoreTest, AtTheStartItWaitsUntilNoReplicaFollowsAReplica) {
  for (const std::string host : {"s1", "s2", "s3"}) played_[host].follows = "r1";
  Make();
  Pass(seconds(3));
  EXPECT_FALSE(up_);
  EXPECT_EQ(Open("a"), 0u);
  ASSERT_EQ(problems_.size(), 1u) << problems_.back();
  EXPECT_TRUE(absl::IsUnavailable(problems_[0])) << problems_[0];
  EXPECT_NE(problems_[0].message().find("the replica r2:6379 follows the replica r1:6379"), std::string::npos);
  for (const std::string host : {"s1", "s2", "s3"}) played_[host].follows = "a";
  Pass(seconds(2));
  EXPECT_TRUE(up_);
}

TEST_F(SentinelStoreTest, WhoFollowsAPrimaryFollowsTheNextOneInSpiteOfAChain) {
  Make();
  FailOver({"s1", "s2", "s3"});
  for (const std::string host : {"s1", "s2", "s3"}) played_[host].follows = "r1";
  Pass(seconds(12));
  EXPECT_EQ(Open("a"), 0u);
  EXPECT_EQ(Open("b"), 2u);
}

TEST_F(SentinelStoreTest, AfterStopNothingIsHeard) {
  Make();
  store_->Stop();
  const size_t heard = ups_.size() + replies_.size();
  FailOver({"s1", "s2", "s3"});
  Pass(seconds(5));
  EXPECT_EQ(ups_.size() + replies_.size(), heard);
  EXPECT_TRUE(OpenHosts().empty());
}

}  // namespace
}  // namespace distlock::store
