// SPDX-License-Identifier: Apache-2.0
#include "decoding.h"

#include <algorithm>
#include <optional>

#include "core/check.h"
#include "core/limits.h"
#include "store/redis/answer.h"
#include "store/redis/codec.h"

namespace distlock::fuzz {
namespace {

using core::Duration;
using store::Question;

constexpr core::OpId kOp = 7;

// Whatever it is added to, or told in nanoseconds, does not overflow.
void CheckTime(core::StoreTime time) { DISTLOCK_CHECK(time.us >= 0 && time <= core::kMaxStoreTime); }

void CheckSpan(Duration span) { DISTLOCK_CHECK(span >= Duration::zero() && span <= Duration::max() / 2); }

void CheckHolders(const std::vector<core::HolderView>& holders) {
  for (const core::HolderView& holder : holders) {
    CheckTime(holder.since);
    CheckSpan(holder.ttl);
    CheckSpan(holder.lock_delay);
    CheckSpan(holder.time_left);
  }
}

void CheckLeft(std::optional<Duration> left) {
  if (left) CheckSpan(*left);
}

struct CheckOutcome {
  const Question& question;
  core::StoreTime time;

  void operator()(const core::StoreUnknown&) const { DISTLOCK_CHECK(time.us == 0); }
  void operator()(const core::StoreFailed&) const { DISTLOCK_CHECK(time.us == 0); }
  void operator()(const core::AcquireGranted& out) const {
    Expect(Question::Verb::kAcquire);
    DISTLOCK_CHECK(out.token != 0);
    CheckTime(out.since);
  }
  void operator()(const core::AcquireQueued& out) const {
    Expect(Question::Verb::kAcquire);
    CheckHolders(out.holders);
    CheckLeft(out.left);
  }
  void operator()(const core::AcquireMismatch&) const { Expect(Question::Verb::kAcquire); }
  void operator()(const core::AcquireHeld& out) const {
    Expect(Question::Verb::kAcquire);
    CheckHolders(out.holders);
    CheckLeft(out.left);
  }
  void operator()(const core::AcquireLate&) const {
    DISTLOCK_CHECK(question.verb == Question::Verb::kAcquire || question.verb == Question::Verb::kAcquireAll);
  }
  void operator()(const core::AcquireAllDone& out) const {
    Expect(Question::Verb::kAcquireAll);
    DISTLOCK_CHECK(out.grants.empty() || out.grants.size() == question.items);
    for (const core::AcquireGranted& grant : out.grants) DISTLOCK_CHECK(grant.token > 0);
  }
  void operator()(const core::AcquireQueueFull&) const { Expect(Question::Verb::kAcquire); }
  void operator()(const core::ConvertDone& out) const {
    Expect(Question::Verb::kConvert);
    CheckHolders(out.next);
  }
  void operator()(const core::ForceDone& out) const {
    Expect(Question::Verb::kForce);
    CheckHolders(out.next);
  }
  void operator()(const core::RenewDoneBatch& out) const {
    Expect(Question::Verb::kRenew);
    DISTLOCK_CHECK(out.results.size() == question.items);
  }
  void operator()(const core::GiveBackDone& out) const {
    DISTLOCK_CHECK(question.verb == Question::Verb::kRelease || question.verb == Question::Verb::kWithdraw);
    DISTLOCK_CHECK(time.us > 0);
    CheckHolders(out.next);
  }
  void operator()(const core::TendDone& out) const {
    Expect(Question::Verb::kTend);
    CheckHolders(out.holders);
    CheckLeft(out.left);
  }
  void operator()(const core::WatchDone& out) const {
    Expect(Question::Verb::kWatch);
    CheckHolders(out.view.holders);
    for (const auto& waiter : out.view.waiters) CheckSpan(waiter.ttl);
  }

 private:
  void Expect(Question::Verb verb) const {
    DISTLOCK_CHECK(question.verb == verb);
    DISTLOCK_CHECK(time.us > 0);
  }
};

void DecodeAs(const store::Codec& codec, const redisReply& reply, Question::Verb verb, size_t items) {
  const Question question{verb, kOp, items};
  const store::Decoded decoded = codec.Decode(question, reply);
  DISTLOCK_CHECK(decoded.reply.op == kOp);
  DISTLOCK_CHECK(!decoded.odd || std::holds_alternative<core::StoreUnknown>(decoded.reply.outcome));
  CheckTime(decoded.reply.time);
  std::visit(CheckOutcome{question, decoded.reply.time}, decoded.reply.outcome);

  const store::Understood understood = Understand(codec, question, {store::Answer::Kind::kReply, &reply, /*cause=*/{}});
  DISTLOCK_CHECK(!decoded.odd || !understood.reconnect.empty());
}

}  // namespace

void DecodeEveryWay(const redisReply& reply) {
  static const store::Codec codec({.broker_id = "00000000000000aa"});
  for (const auto verb :
       {Question::Verb::kAcquire, Question::Verb::kRelease, Question::Verb::kWithdraw, Question::Verb::kTend,
        Question::Verb::kWatch, Question::Verb::kConvert, Question::Verb::kForce}) {
    DecodeAs(codec, reply, verb, 0);
  }
  for (const size_t items : {size_t{1}, size_t{3}, core::kMaxRenewBatch}) {
    DecodeAs(codec, reply, Question::Verb::kRenew, items);
    if (items <= core::kMaxTogether) DecodeAs(codec, reply, Question::Verb::kAcquireAll, items);
  }
  for (const size_t items : {size_t{3}, std::max(reply.elements, size_t{1}) - 1}) {
    const store::BatchReply batch(&reply, items);
    for (size_t i = 0; i < items; ++i) {
      batch.Of(i, [](const redisReply* item) {
        DecodeAs(codec, *item, Question::Verb::kAcquire, 0);
        DecodeAs(codec, *item, Question::Verb::kRelease, 0);
      });
    }
  }
  const auto name = core::LockName::Encode("default", "job");
  const auto view = store::Codec::DecodeInspect(name, reply);
  if (!view.ok()) return;
  CheckHolders(view->holders);
  for (const auto& waiter : view->waiters) CheckSpan(waiter.ttl);
}

}  // namespace distlock::fuzz
