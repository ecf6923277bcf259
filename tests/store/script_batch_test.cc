// SPDX-License-Identifier: Apache-2.0
#include "store/redis/script_batch.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parse_reply.h"
#include "redis/known_clock.h"
#include "store/redis/resp.h"
#include "store/text.h"

namespace distlock::store {
namespace {

class BatchTest : public testing::Test, public CommandSender {
 protected:
  BatchTest()
      : codec_({.broker_id = "00000000000000b1"}, sim::KnownClock()),
        scripts_(this),
        batch_(&codec_, &scripts_, Answer_()) {}

  void Send(std::string_view command, Done done) override { sent_.push_back({std::string(command), std::move(done)}); }
  void Flush() override {}

  static core::LockName Name(const std::string& key) { return core::LockName::Encode("ns", key); }
  core::StoreAcquire Acquire(core::OpId op, const std::string& key) {
    core::StoreAcquire acquire{.op = op, .name = Name(key)};
    acquire.ttl = std::chrono::seconds(15);
    return acquire;
  }
  core::StoreAcquire Read(core::OpId op, const std::string& key) {
    core::StoreAcquire acquire = Acquire(op, key);
    acquire.want.mode = core::Mode::kShared;
    return acquire;
  }
  static core::StoreRenew Renew(core::OpId op, const std::string& key) {
    return {.op = op, .items = {{.name = Name(key), .token = 5, .ttl = std::chrono::seconds(15)}}};
  }
  static core::StoreRelease Release(core::OpId op, const std::string& key, core::Duration block = {}) {
    return {.op = op, .name = Name(key), .token = 5, .block = block};
  }

  // The scripts called so far, each with how many keys it has; none is looked at twice.
  std::vector<std::string> Calls() {
    std::vector<std::string> calls;
    for (; looked_ < sent_.size(); ++looked_) {
      const ReplyPtr argv = Parse(sent_[looked_].first);
      for (const lua::ScriptSource* script : AllScripts()) {
        if (Text(*argv->element[1]) == script->sha1) calls.push_back(Cat(script->name, " ", Text(*argv->element[2])));
      }
    }
    return calls;
  }
  // The lock of each item of a batch, and whether it is an acquire.
  std::vector<std::string> Items(size_t call) {
    const ReplyPtr argv = Parse(sent_[call].first);
    const size_t items = (argv->elements - 5) / 2;
    std::vector<std::string> texts;
    for (size_t i = 0; i < items; ++i) {
      const std::string_view key = Text(*argv->element[3 + i]);
      const bool acquires = Text(*argv->element[5 + items + i]).front() == 'a';
      texts.push_back(Cat(key.substr(key.find('/') + 1, 1), acquires ? " acquire" : " release"));
    }
    return texts;
  }
  void Reply(size_t call, const std::string& bytes) {
    const ReplyPtr reply = Parse(bytes);
    ASSERT_NE(reply, nullptr) << bytes;
    sent_[call].second({Answer::Kind::kReply, reply.get(), {}, kSent, kReceived});
  }

  static constexpr core::Instant kSent{std::chrono::seconds(5)}, kReceived{std::chrono::seconds(6)};

  const Codec codec_;
  ScriptCaller scripts_;
  ScriptBatch batch_;
  std::vector<std::pair<std::string, Done>> sent_;
  size_t looked_ = 0;
  std::vector<Decoded> decoded_;

 private:
  ScriptBatch::OnAnswer Answer_() {
    return [this](const SentCommand& sent, const Answer& answer) {
      if (answer.kind == Answer::Kind::kReply) {
        EXPECT_EQ(answer.sent, kSent);
        EXPECT_EQ(answer.received, kReceived);
      }
      decoded_.push_back(codec_.Decode(sent, answer));
    };
  }
};

TEST_F(BatchTest, OneAloneIsACallOfItsOwnScript) {
  batch_.Add(Acquire(1, "a"));
  EXPECT_TRUE(Calls().empty()) << "others may join it";
  batch_.Send();
  EXPECT_EQ(Calls(), std::vector<std::string>{"acquire 4"});
  batch_.Send();
  EXPECT_TRUE(Calls().empty());
}

TEST_F(BatchTest, AcquiresAndReleasesOfDifferentLocksGoTogether) {
  batch_.Add(Acquire(1, "a"));
  batch_.Add(Release(2, "b"));
  batch_.Add(Acquire(3, "c"));
  batch_.Send();
  EXPECT_EQ(Calls(), std::vector<std::string>{"batch 3"});
}

// The clock goes on at each look.
class PassingTimers : public Timers {
 public:
  core::Instant Now() const override { return now += by; }
  std::unique_ptr<Timer> Make(std::function<void()> /*fire*/) override { return nullptr; }

  mutable core::Instant now{std::chrono::hours(1)};
  core::Duration by{};
};

// Scripts are told until when it counts.
TEST_F(BatchTest, WhatIsKnownOfTheServerMayRunOutMeanwhile) {
  PassingTimers timers;
  Census census({.kind = HoldOffOptions::Kind::kFixed}, 0);
  census.Meet({.identity = "a:1"});
  census.OnCount({.time = {5}, .since = {1}}, timers.now);
  census.OnSame(timers.now);
  Codec codec({.broker_id = "00000000000000b1"}, sim::KnownClock());
  codec.Obey(&census, &timers);
  ScriptBatch batch(&codec, &scripts_, [](const SentCommand& /*sent*/, const Answer& /*answer*/) {});
  batch.Add(Acquire(1, "a"));
  batch.Add(Acquire(2, "b"));
  timers.by = Census::kKnowledgeLasts * 3 / 4;
  batch.Send();
  EXPECT_EQ(Calls(), std::vector<std::string>{"batch 2"});
  EXPECT_TRUE(codec.holds_off());
}

TEST_F(BatchTest, TwoOfOneLockDoNot) {
  batch_.Add(Release(1, "a"));
  batch_.Add(Acquire(2, "b"));
  batch_.Add(Acquire(3, "a"));
  batch_.Send();
  EXPECT_EQ(Calls(), (std::vector<std::string>{"batch 2", "acquire 4"}));
}

// As of callers who leave a lock's scope and enter it again.
TEST_F(BatchTest, ReleasesGoTogetherAndThenTheAcquiresOfTheSameLocks) {
  for (core::OpId i = 0; i < 16; ++i) {
    batch_.Add(Release(2 * i + 1, Cat("k", i)));
    batch_.Add(Acquire(2 * i + 2, Cat("k", i)));
  }
  batch_.Send();
  EXPECT_EQ(Calls(), (std::vector<std::string>{"batch 16", "batch 16"}));
  std::vector<std::string> firsts;
  for (const auto& [command, done] : sent_) firsts.emplace_back(Text(*Parse(command)->element[21]).substr(0, 2));
  EXPECT_EQ(firsts, (std::vector<std::string>{"1;", "a0"})) << "the first item of each batch";
}

TEST_F(BatchTest, CommandsOfOneLockKeepTheirOrder) {
  batch_.Add(Release(1, "a"));
  batch_.Add(Acquire(2, "b"));
  batch_.Add(Acquire(3, "a"));
  batch_.Add(Release(4, "b"));
  batch_.Add(Release(5, "a"));
  batch_.Add(Acquire(6, "c"));
  batch_.Send();
  EXPECT_EQ(Calls(), (std::vector<std::string>{"batch 2", "batch 2", "batch 2"}));
  const auto ok = [](int call) { return Cat("*3\r\n$4\r\n1795\r\n:", call, "\r\n:", call, "\r\n"); };
  for (size_t call = 0; call < 3; ++call) Reply(call, ok(7));
  std::vector<core::OpId> answered;
  for (const Decoded& one : decoded_) answered.push_back(one.reply.op);
  EXPECT_EQ(answered, (std::vector<core::OpId>{1, 2, 3, 4, 5, 6}));
}

TEST_F(BatchTest, WhatReadersOfOneLockSendGoesTogetherInOrder) {
  batch_.Add(Release(1, "a"));
  batch_.Add(Acquire(2, "b"));
  batch_.Add(Read(3, "a"));
  batch_.Add(Read(4, "c"));
  batch_.Add(Release(5, "a"));
  batch_.Add(Read(6, "c"));
  batch_.Send();
  ASSERT_EQ(Calls(), std::vector<std::string>{"batch 6"});
  EXPECT_EQ(Items(0),
            (std::vector<std::string>{"a release", "a acquire", "a release", "b acquire", "c acquire", "c acquire"}))
      << "items of one lock stand together";
  Reply(0,
        "*7\r\n$4\r\n1795\r\n:7\r\n:1\r\n*2\r\n:8\r\n$4\r\n1795\r\n:1\r\n:1\r\n*4\r\n:1\r\n"
        "$4\r\n1795\r\n$4\r\n1796\r\n$4\r\n1795\r\n");
  std::vector<core::OpId> answered;
  for (const Decoded& one : decoded_) answered.push_back(one.reply.op);
  EXPECT_EQ(answered, (std::vector<core::OpId>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(std::get<core::AcquireGranted>(decoded_[5].reply.outcome).token, 1796u);
}

TEST_F(BatchTest, WhoIsNoReaderSharesNoBatchWithOthersOfTheLock) {
  batch_.Add(Read(1, "a"));
  batch_.Add(Acquire(2, "a"));
  batch_.Add(Read(3, "a"));
  batch_.Add(Release(4, "a"));
  batch_.Send();
  EXPECT_EQ(Calls(), (std::vector<std::string>{"acquire 4", "acquire 4", "batch 2"}));
  core::StoreAcquire permit = Acquire(6, "b");
  permit.want = {.mode = core::Mode::kPermit, .limit = 3};
  batch_.Add(Release(5, "b"));
  batch_.Add(core::StoreCommand(permit));
  batch_.Send();
  EXPECT_EQ(Calls(), (std::vector<std::string>{"release 4", "acquire 4"}));
}

TEST_F(BatchTest, ReadersFillTheFirstBatchAndThenTheSecond) {
  for (core::OpId i = 1; i <= 15; ++i) batch_.Add(Read(i, "a"));
  batch_.Add(Read(16, "b"));
  for (core::OpId i = 17; i <= 20; ++i) batch_.Add(Read(i, i % 2 == 0 ? "a" : "b"));
  for (core::OpId i = 21; i <= 32; ++i) batch_.Add(Release(i, "a"));
  batch_.Add(Read(33, "b"));
  batch_.Send();
  ASSERT_EQ(Calls(), (std::vector<std::string>{"batch 16", "batch 16", "acquire 4"}));
  std::vector<std::string> second(Items(1));
  EXPECT_EQ(std::vector<std::string>(second.begin(), second.begin() + 5),
            (std::vector<std::string>{"b acquire", "b acquire", "a acquire", "a acquire", "a release"}));
}

TEST_F(BatchTest, WhatComesBehindAFullBatchOpensTheNext) {
  for (core::OpId i = 1; i <= 40; ++i) batch_.Add(Acquire(i, Cat("k", i)));
  batch_.Send();
  EXPECT_EQ(Calls(), (std::vector<std::string>{"batch 16", "batch 16", "batch 8"}));
}

TEST_F(BatchTest, OtherCommandsGoAloneAndInOrder) {
  batch_.Add(Acquire(1, "a"));
  batch_.Add(core::StoreWithdraw{.op = 2, .name = Name("a")});
  batch_.Add(Release(3, "b"));
  batch_.Add(Release(4, "c", std::chrono::seconds(1)));
  batch_.Add(Acquire(5, "d"));
  batch_.Add(Renew(6, "d"));
  batch_.Add(Acquire(7, "d"));
  batch_.Send();
  EXPECT_EQ(Calls(), (std::vector<std::string>{"acquire 4", "withdraw 4", "release 4", "release 4", "acquire 4",
                                               "renew 1", "acquire 4"}));
}

TEST_F(BatchTest, ThereIsAMost) {
  for (core::OpId i = 1; i <= 20; ++i) batch_.Add(Acquire(i, Cat("k", i)));
  batch_.Send();
  EXPECT_EQ(Calls(), (std::vector<std::string>{"batch 16", "batch 4"}));
}

TEST_F(BatchTest, EachIsAnsweredAsIfItWereAlone) {
  for (core::OpId i = 1; i <= 2; ++i) batch_.Add(Acquire(i, Cat("k", i)));
  for (core::OpId i = 3; i <= 4; ++i) batch_.Add(Release(i, Cat("k", i)));
  for (core::OpId i = 5; i <= 6; ++i) batch_.Add(Acquire(i, Cat("k", i)));
  batch_.Send();
  Reply(0,
        "*7\r\n$4\r\n1795\r\n:1\r\n*2\r\n:4\r\n$4\r\n1795\r\n:7\r\n*2\r\n:8\r\n$4\r\n1795\r\n-OOM command not "
        "allowed\r\n:5\r\n");
  ASSERT_EQ(decoded_.size(), 6u);
  for (core::OpId i = 1; i <= 6; ++i) EXPECT_EQ(decoded_[i - 1].reply.op, i);
  const auto outcome = [&](size_t i) -> const auto& { return decoded_[i].reply.outcome; };
  ASSERT_TRUE(std::holds_alternative<core::AcquireGranted>(outcome(0)));
  EXPECT_EQ(std::get<core::AcquireGranted>(outcome(0)).token, 1795u);
  EXPECT_EQ(decoded_[0].time.us, 1795);
  EXPECT_TRUE(std::holds_alternative<core::AcquireLate>(outcome(1)));
  EXPECT_TRUE(std::get<core::GiveBackDone>(outcome(2)).was_holder);
  EXPECT_FALSE(std::get<core::GiveBackDone>(outcome(3)).was_holder);
  EXPECT_EQ(std::get<core::StoreFailed>(outcome(4)).kind, core::FailureKind::kFull);
  EXPECT_TRUE(std::holds_alternative<core::StoreUnknown>(outcome(5)));
  EXPECT_FALSE(decoded_[5].reconnect.empty()) << "a code that comes alone is 1 or 7";
}

TEST_F(BatchTest, WhatHappensToAllIsToldToEach) {
  for (const std::string bytes :
       {"-READONLY You can't write against a read only replica.\r\n", "*1\r\n$4\r\n1795\r\n"}) {
    decoded_.clear();
    batch_.Add(Acquire(1, "a"));
    batch_.Add(Release(2, "b"));
    batch_.Send();
    Reply(sent_.size() - 1, bytes);
    ASSERT_EQ(decoded_.size(), 2u);
    for (const Decoded& one : decoded_) {
      EXPECT_FALSE(one.reconnect.empty()) << bytes;
      EXPECT_EQ(std::holds_alternative<core::StoreUnknown>(one.reply.outcome), bytes[0] == '*');
    }
  }
  decoded_.clear();
  batch_.Add(Acquire(1, "a"));
  batch_.Add(Release(2, "b"));
  batch_.Send();
  sent_.back().second({Answer::Kind::kUnknown, nullptr, "gone"});
  ASSERT_EQ(decoded_.size(), 2u);
  EXPECT_EQ(std::get<core::StoreUnknown>(decoded_[1].reply.outcome).cause, "gone");
}

}  // namespace
}  // namespace distlock::store
