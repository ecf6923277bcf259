// SPDX-License-Identifier: Apache-2.0
//
// The store of a Cluster in virtual time, with nodes played by the test. One thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fake_network.h"
#include "store/cluster/cluster_store.h"
#include "store/redis/keys.h"
#include "store/redis/reply_code.h"
#include "store/redis/script_caller.h"
#include "store/text.h"

namespace distlock::store {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The other end of every connection to one node.
struct PlayedNode {
  Slot first = 0, last = 0;
  std::string id;
  bool has_slots = true;
  bool alone = false;                         // it names only itself
  bool deaf = false;                          // nobody accepts connections
  bool refuses = false;                       // connections are refused
  std::string answer = "NOREPLICAS not now";  // an error, to every script that is not of the list below
  std::string moved_to;                       // instead of that: every lock is at this host, it says; "": it does not
  std::string channel_moved_to;               // the same, of its channel
  bool poisoned = false;                      // refuses every script
  core::Duration ahead{};                     // its clock
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

  void Make(const HoldOffOptions& hold_off = {}) {
    StoreOptions options;
    options.locks.hold_off = hold_off;
    options.url = *ParseStoreUrl("redis+cluster://a,b");
    options.locks.broker_id = "00000000000000b1";
    options.on_problem = [this](const absl::Status& why) { problems_.emplace_back(why.message()); };
    options.on_warning = [this](const std::string& text) { warnings_.push_back(text); };
    options.cluster_events.on_redirect = [this](ClusterEvents::Redirect kind) { ++redirects_[kind]; };
    options.cluster_events.on_refresh = [this](ClusterEvents::Refresh result) { ++refreshes_[result]; };
    options.on_node_status = [this](const NodeStatus& status) {
      statuses_[status.address.substr(0, status.address.find(':'))] = status;
    };
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
  // The last answer's reason why the command was not run; "": it says another thing.
  std::string Cause() const {
    const auto* failed = replies_.empty() ? nullptr : std::get_if<core::StoreFailed>(&replies_.back().outcome);
    return failed == nullptr ? "" : failed->cause;
  }
  static Slot SlotOfLock(const core::LockName& name) { return SlotOf(Cat("dl:{", name.escaped(), "}")); }
  core::LockName LockOf(const std::string& host) const { return LocksOf(host, 1).front(); }
  std::vector<core::LockName> LocksOf(const std::string& host, size_t count) const {
    std::vector<core::LockName> found;
    for (int i = 0; found.size() < count; ++i) {
      auto name = core::LockName::Encode("ns", Cat("k", i));
      const Slot slot = SlotOfLock(name);
      if (slot >= played_.at(host).first && slot <= played_.at(host).last) found.push_back(std::move(name));
    }
    return found;
  }
  // How often any node was asked for the map.
  int Questions() const {
    int asked = 0;
    for (const auto& [_, node] : played_) asked += node.asked_for_slots;
    return asked;
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
  std::map<std::string, NodeStatus> statuses_;  // the last of each, by host
  std::map<ClusterEvents::Redirect, int> redirects_;
  std::map<ClusterEvents::Refresh, int> refreshes_;
  std::string node_timeout_ = "5000", full_coverage_ = "no";

  core::OpId op_ = 0;  // of the last command

 private:
  void Answer(size_t i) {
    const auto wire = net_.dialer->dialed[i];
    if (answered_.size() <= i) answered_.resize(i + 1, 0);
    if (played_.at(net_.dialer->addresses[i].host).deaf) return;
    if (wire->open() && played_.at(net_.dialer->addresses[i].host).refuses) return wire->Drop("Connection refused");
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
    if (word(0) == "SSUBSCRIBE" && !node.channel_moved_to.empty()) {
      return Cat("-MOVED ", SlotOf(word(1)), " ", node.channel_moved_to, ":6379\r\n");
    }
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
    if (word(0) == "SCAN") return Cat("*2\r\n", BulkOf("0"), "*0\r\n");
    if (word(0) == "TIME") {
      const int64_t time_us = TimeUs(node);
      return ArrayOf({Cat(time_us / 1'000'000), Cat(time_us % 1'000'000)});
    }
    if (word(0) != "EVALSHA") return "+OK\r\n";
    if (node.poisoned) return "-ERR Attempted to access a non local key in a cluster node\r\n";
    if (word(1) != lua::kProbe.sha1) {
      const std::string moved = Cat("MOVED ", SlotOf(word(3)), " ", node.moved_to, ":6379");
      return Cat("-", node.moved_to.empty() ? node.answer : moved, "\r\n");
    }
    return Cat("*4\r\n:", static_cast<int>(kProbed), "\r\n", BulkOf(Cat(TimeUs(node))), ":",
               node.refuses_spublish.empty() ? 1 : -1, "\r\n", BulkOf(node.refuses_spublish));
  }

  int64_t TimeUs(const PlayedNode& node) const {
    const core::Duration passed = net_.timers->Now().time_since_epoch() + node.ahead;
    return 1'700'000'000'000'000 + std::chrono::duration_cast<std::chrono::microseconds>(passed).count();
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
};

}  // namespace distlock::store
