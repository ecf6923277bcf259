// SPDX-License-Identifier: Apache-2.0
#include "decoding.h"

#include <algorithm>
#include <optional>

#include "core/check.h"
#include "core/limits.h"
#include "store/redis/batch_reply.h"
#include "store/redis/codec.h"

namespace distlock::fuzz {
namespace {

using core::Duration;
using store::SentCommand;

constexpr core::OpId kOp = 7;

// Whatever it is added to, or told in nanoseconds, does not overflow.
void CheckTime(core::StoreTime time) { DISTLOCK_CHECK(time.us >= 0 && time <= core::kMaxStoreTime); }

void CheckSpan(Duration span) { DISTLOCK_CHECK(span >= Duration::zero() && span <= Duration::max() / 2); }

// Two stamps' difference.
void CheckDifference(Duration time) {
  const Duration most = std::chrono::microseconds(core::kMaxStoreTime.us);
  DISTLOCK_CHECK(time >= -most && time <= most);
}

void CheckHolders(const std::vector<core::HolderView>& holders) {
  for (const core::HolderView& holder : holders) {
    CheckTime(holder.since);
    CheckDifference(holder.held_for);
    CheckSpan(holder.ttl);
    CheckSpan(holder.lock_delay);
    CheckSpan(holder.time_left);
  }
}

void CheckLeft(std::optional<Duration> left) {
  if (left) CheckSpan(*left);
}

struct CheckOutcome {
  const SentCommand& sent;
  core::StoreTime time;

  void operator()(const core::StoreUnknown&) const { DISTLOCK_CHECK(time.us == 0); }
  void operator()(const core::StoreFailed&) const {}
  void operator()(const core::AcquireGranted& out) const {
    Expect(SentCommand::Verb::kAcquire);
    DISTLOCK_CHECK(out.token != 0);
    CheckTime(out.since);
    CheckDifference(out.held_for);
  }
  void operator()(const core::AcquireQueued& out) const {
    Expect(SentCommand::Verb::kAcquire);
    CheckHolders(out.holders);
    CheckLeft(out.left);
  }
  void operator()(const core::AcquireMismatch&) const { Expect(SentCommand::Verb::kAcquire); }
  void operator()(const core::AcquireHeld& out) const {
    Expect(SentCommand::Verb::kAcquire);
    CheckHolders(out.holders);
    CheckLeft(out.left);
  }
  void operator()(const core::AcquireLate&) const {
    DISTLOCK_CHECK(sent.verb == SentCommand::Verb::kAcquire || sent.verb == SentCommand::Verb::kAcquireAll ||
                   sent.verb == SentCommand::Verb::kAdopt || sent.verb == SentCommand::Verb::kWithdraw);
  }
  void operator()(const core::AcquireAllDone& out) const {
    Expect(SentCommand::Verb::kAcquireAll);
    DISTLOCK_CHECK(out.grants.empty() || out.grants.size() == sent.items);
    for (const core::AcquireGranted& grant : out.grants) DISTLOCK_CHECK(grant.token > 0);
  }
  void operator()(const core::AcquireQueueFull&) const { Expect(SentCommand::Verb::kAcquire); }
  void operator()(const core::DowngradeDone& out) const {
    Expect(SentCommand::Verb::kDowngrade);
    CheckHolders(out.next);
  }
  void operator()(const core::ForceDone& out) const {
    Expect(SentCommand::Verb::kForce);
    CheckHolders(out.next);
  }
  void operator()(const core::AdoptDone& out) const {
    Expect(SentCommand::Verb::kAdopt);
    CheckSpan(out.ttl);
    CheckSpan(out.lock_delay);
  }
  void operator()(const core::WantedDone& out) const {
    Expect(SentCommand::Verb::kWanted);
    DISTLOCK_CHECK(out.is_held || out.queue_length == 0);
  }
  void operator()(const core::RenewDoneBatch& out) const {
    Expect(SentCommand::Verb::kRenew);
    DISTLOCK_CHECK(out.results.size() == sent.items);
  }
  void operator()(const core::GiveBackDone& out) const {
    DISTLOCK_CHECK(sent.verb == SentCommand::Verb::kRelease || sent.verb == SentCommand::Verb::kWithdraw);
    DISTLOCK_CHECK(time.us > 0);
    CheckHolders(out.next);
  }
  void operator()(const core::TendDone& out) const {
    Expect(SentCommand::Verb::kTend);
    CheckHolders(out.holders);
    CheckLeft(out.left);
  }
  void operator()(const core::WatchDone& out) const {
    Expect(SentCommand::Verb::kWatch);
    CheckHolders(out.view.holders);
    for (const auto& waiter : out.view.waiters) CheckSpan(waiter.ttl);
  }

 private:
  void Expect(SentCommand::Verb verb) const {
    DISTLOCK_CHECK(sent.verb == verb);
    DISTLOCK_CHECK(time.us > 0);
  }
};

void DecodeAs(const store::Codec& codec, const redisReply& reply, SentCommand::Verb verb, size_t items) {
  const SentCommand sent{verb, kOp, items};
  const store::Decoded decoded = codec.Decode(sent, reply);
  DISTLOCK_CHECK(decoded.reply.op == kOp);
  DISTLOCK_CHECK(!decoded.malformed || std::holds_alternative<core::StoreUnknown>(decoded.reply.outcome));
  DISTLOCK_CHECK(!decoded.malformed || !decoded.reconnect.empty());
  CheckTime(decoded.time);
  std::visit(CheckOutcome{sent, decoded.time}, decoded.reply.outcome);
}

}  // namespace

void DecodeEveryWay(const redisReply& reply) {
  static const store::ServerClock clock(500);
  static const store::Codec codec({.broker_id = "00000000000000aa"}, clock);
  for (const auto verb : {SentCommand::Verb::kAcquire, SentCommand::Verb::kRelease, SentCommand::Verb::kWithdraw,
                          SentCommand::Verb::kTend, SentCommand::Verb::kWatch, SentCommand::Verb::kDowngrade,
                          SentCommand::Verb::kForce, SentCommand::Verb::kAdopt, SentCommand::Verb::kWanted}) {
    DecodeAs(codec, reply, verb, 0);
  }
  for (const size_t items : {size_t{1}, size_t{3}, core::kMaxRenewBatch}) {
    DecodeAs(codec, reply, SentCommand::Verb::kRenew, items);
    if (items <= core::kMaxTogether) DecodeAs(codec, reply, SentCommand::Verb::kAcquireAll, items);
  }
  for (const size_t items : {size_t{3}, std::max(reply.elements, size_t{1}) - 1}) {
    const store::BatchReply batch(&reply, items);
    for (size_t i = 0; i < items; ++i) {
      batch.Of(i, [](const redisReply* item) {
        DecodeAs(codec, *item, SentCommand::Verb::kAcquire, 0);
        DecodeAs(codec, *item, SentCommand::Verb::kRelease, 0);
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
