// SPDX-License-Identifier: Apache-2.0
//
// A fixture with one server, an administrator, and one store under test that is started by each test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness.h"

namespace distlock::store {

class StoreTest : public testing::Test {
 protected:
  ~StoreTest() override {
    if (store_) store_->Stop();
    store_.reset();
  }

  void Start(StoreOptions options) {
    options.on_problem = [this](const absl::Status& why) { problems_.push_back(why); };
    options.on_warning = [this](const std::string& warning) { warnings_.push_back(warning); };
    store_ = OpenStore(loop_.get(), options);
    store_->Start(&seen_);
  }
  void StartAndAwaitUp(StoreOptions options) {
    Start(std::move(options));
    ASSERT_TRUE(loop_.RunUntil([&] { return seen_.Up() && seen_.Count<core::ChannelUp>() > 0; }));
  }
  void StartAndAwaitUp() { StartAndAwaitUp(OptionsFor(server_->Url())); }

  core::StoreReply Ask(core::OpId op, core::StoreCommand command) {
    store_->Submit(std::move(command));
    store_->Flush();
    EXPECT_TRUE(loop_.RunUntil([&] { return seen_.Replies(op) > 0; })) << "op " << op << " was never answered";
    return seen_.Replies(op) == 0 ? core::StoreReply{} : *seen_.Reply(op);
  }
  template <typename Outcome>
  Outcome AskFor(core::OpId op, core::StoreCommand command) {
    const core::StoreReply reply = Ask(op, std::move(command));
    const auto* outcome = std::get_if<Outcome>(&reply.outcome);
    EXPECT_NE(outcome, nullptr) << "op " << op << " has outcome " << reply.outcome.index();
    return outcome == nullptr ? Outcome{} : *outcome;
  }
  bool AwaitProblem(absl::StatusCode code) {
    return loop_.RunUntil([&] { return !problems_.empty() && problems_.back().code() == code; });
  }

  std::unique_ptr<EmbeddedServer> server_ = StartServer();
  Admin admin_{server_->Url()};
  TestLoop loop_;
  Recorder seen_;
  std::vector<absl::Status> problems_;
  std::vector<std::string> warnings_;
  std::unique_ptr<Store> store_;
};

// As lua/README.md grants them.
inline const std::vector<std::string>& NeededRights() {
  static const auto* const kRights = new std::vector<std::string>{
      "~dl:*",  "resetchannels", "&dl:*",      "-@all",   "+evalsha", "+script|load", "+time",      "+get",
      "+mget",  "+set",          "+del",       "+exists", "+type",    "+pexpire",     "+pexpireat", "+pttl",
      "+zadd",  "+zrem",         "+zrange",    "+zcard",  "+zrank",   "+hset",        "+hdel",      "+hlen",
      "+hmget", "+publish",      "+subscribe", "+ping",   "+scan",    "+config|get",  "+info",      "+client|setname"};
  return *kRights;
}

// A user with these rights but `without`, and its URL.
inline StoreUrl LimitedUser(Admin& admin, StoreUrl url, std::string_view without = "") {
  admin.Do({"ACL", "SETUSER", "limited", "reset", "on", ">pw"});
  for (const auto& right : NeededRights()) {
    if (right == without) continue;
    EXPECT_EQ(admin.Str({"ACL", "SETUSER", "limited", right}), "OK") << right;
  }
  url.user = "limited";
  url.password = "pw";
  return url;
}

}  // namespace distlock::store
