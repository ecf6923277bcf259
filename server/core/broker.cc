// SPDX-License-Identifier: Apache-2.0
#include "core/broker.h"

#include <algorithm>
#include <type_traits>

#include "core/check.h"
#include "core/fetch.h"
#include "core/limits.h"

namespace distlock::core {

Broker::Broker(const BrokerConfig& config)
    : config_(config), random_state_(config.seed), clock_(config.clock_drift_ppm) {}

Broker::~Broker() = default;

void Broker::Step(Instant now, Input&& input, std::vector<Effect>& effects) {
  now_ = std::max(now_, now);
  // Who was stopped has heard nothing because it did not listen.
  if (timers_.AnyBefore(now_ - kSilence / 2)) last_heard_ = now_;
  effects_ = &effects;
  ExpireDue();
  std::visit([this](auto& in) { Handle(in); }, input);
  SendRenewals();
  SendHeldBack();
  FinishDrainWhenEmpty();
  effects_ = nullptr;
}

void Broker::ExpireDue() {
  while (Timed* due = timers_.PopDue(now_)) {
    if (const Timed* next = timers_.Next()) Fetch(next, sizeof(Lease));  // most are leases
    switch (due->kind) {
      case TimerKind::kWaiter:
        OnWaiterTimer(static_cast<Waiter&>(*due));
        break;
      case TimerKind::kLease:
        OnLeaseTimer(static_cast<Lease&>(*due));
        break;
      case TimerKind::kSession:
        OnSessionTimer(static_cast<Session&>(*due));
        break;
      case TimerKind::kGiveBack:
        OnGiveBackTimer(static_cast<GiveBack&>(*due));
        break;
      case TimerKind::kQueue:
        OnQueueTimer(static_cast<LocalQueue&>(*due));
        break;
      case TimerKind::kRenewCall:
        OnRenewCallTimer(static_cast<RenewCall&>(*due));
        break;
      case TimerKind::kWatch:
        OnWatchTimer(static_cast<Watch&>(*due));
        break;
      case TimerKind::kDrain:
        DrainNow();
        break;
      case TimerKind::kBundle:
        OnBundleTimer(static_cast<Bundle&>(*due));
        break;
      case TimerKind::kConvertCall:
        OnConvertTimer(static_cast<ConvertCall&>(*due));
        break;
      case TimerKind::kForceCall:
        OnForceTimer(static_cast<ForceCall&>(*due));
        break;
      case TimerKind::kPace:
        break;  // every Step sends what may leave
    }
  }
}

void Broker::Handle(const StoreUp& in) {
  store_up_ = true;
  last_heard_ = now_;
  // Only a coarse reading: it has no sending time of ours. The first reply narrows it.
  if (!clock_.known() && in.time.us > 0) clock_.Learn(now_ - kAttemptMax, now_, in.time);

  for (auto& [serial, lease] : at_risk_) {
    RenewSoon(*lease);
  }
  std::vector<Waiter*> waiting;
  for (auto& [serial, waiter] : unplaced_) {
    if (waiter->op == 0) waiting.push_back(waiter);
  }
  for (Waiter* waiter : waiting) Ask(*waiter);
  std::vector<GiveBack*> unsent;
  for (auto& [owner, give_back] : give_backs_) {
    // One that waits for a straggler to have run must not be early.
    if (give_back->op == 0 && give_back->retry_at != give_back->straggler_until) unsent.push_back(give_back.get());
  }
  std::sort(unsent.begin(), unsent.end(), [](const GiveBack* a, const GiveBack* b) { return a->owner < b->owner; });
  for (GiveBack* give_back : unsent) SendGiveBack(*give_back);
  for (auto& [name, queue] : queues_) Tend(*queue);
  LookAtAll();
  std::vector<RenewCall*> calls;
  for (auto& [session, call] : renew_calls_) {
    if (call->op == 0) calls.push_back(call.get());
  }
  for (RenewCall* call : calls) SendRenewCall(*call);
  for (auto& [asked, call] : convert_calls_) {
    if (call->op == 0) SendConvert(*call);
  }
}

void Broker::Handle(const StoreDown& in) {
  if (store_up_) down_since_ = now_;
  store_up_ = false;
  store_trouble_ = in.cause;
}

void Broker::Handle(const ChannelUp&) {
  for (auto& [name, queue] : queues_) Tend(*queue);
  LookAtAll();
}

void Broker::Handle(StoreReply& in) {
  const auto found = ops_.find(in.op);
  if (found == ops_.end()) return;
  const Op op = std::move(found->second);
  ops_.erase(found);
  const bool heard = !std::holds_alternative<StoreUnknown>(in.outcome) &&
                     !(std::holds_alternative<StoreFailed>(in.outcome) &&
                       std::get<StoreFailed>(in.outcome).kind == FailureKind::kNotSent);
  if (heard) last_heard_ = now_;
  if (in.time.us > 0) {
    if (const auto jump = clock_.Learn(op.sent, now_, in.time)) {
      Note({.kind = FactKind::kClockStep, .value = *jump, .name = {}, .detail = {}});
      // A forward jump has shortened every key's life: start all of them anew.
      for (auto& [id, session] : sessions_) {
        for (auto& [request, lease] : session->leases) {
          RenewSoon(*lease);
        }
      }
      for (auto& [serial, bundle] : bundles_) {
        for (const Bundle::Part& part : bundle->parts) {
          if (part.taken) RenewSoon(*leases_.at(part.spec.owner));
        }
      }
    }
  }
  switch (op.verb) {
    case Op::Verb::kAcquire:
      OnAcquireReply(op, in.op, in);
      break;
    case Op::Verb::kAcquireAll:
      OnAcquireAllReply(op, in.op, in);
      break;
    case Op::Verb::kRenew:
      OnRenewReply(op, in.op, in);
      break;
    case Op::Verb::kRenewCall:
      OnRenewCallReply(op, in.op, in);
      break;
    case Op::Verb::kGiveBack:
      OnGiveBackReply(op, in.op, in);
      break;
    case Op::Verb::kTend:
      OnTendReply(op, in.op, in);
      break;
    case Op::Verb::kWatch:
      OnWatchReply(op, in.op, in);
      break;
    case Op::Verb::kConvert:
      OnConvertReply(op, in.op, in);
      break;
    case Op::Verb::kForce:
      OnForceReply(op, in.op, in);
      break;
  }
}

OpId Broker::SendOp(Op op) {
  if (ops_.empty()) last_heard_ = now_;  // silence begins with an unanswered question
  const OpId id = next_op_++;
  op.sent = now_;
  ops_.emplace(id, std::move(op));
  return id;
}

void Broker::NoteSilence(const std::string& cause) {
  if (!store_up_ || now_ - last_heard_ < kSilence) return;
  last_heard_ = now_;  // one reconnect per silence
  Command(StoreReconnect{cause});
}

Duration Broker::Drift(Duration time) const {
  return time / 1'000'000 * (2 * static_cast<int64_t>(config_.clock_drift_ppm));
}

Duration Broker::Margin(Duration ttl) const { return Drift(ttl) + kMarginFloor; }

Duration Broker::AttemptTimeout(Duration ttl) const { return std::clamp(ttl / 6, kAttemptMin, kAttemptMax); }

Duration Broker::BackOff(int attempts) {
  const Duration most = std::min<Duration>(kRetryMax, kRetryMin * (int64_t{1} << std::min(attempts, 10)));
  return kRetryMin / 2 + Duration(static_cast<int64_t>(static_cast<double>(most.count()) * Random()));
}

// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, the same everywhere.
double Broker::Random() {
  random_state_ += 0x9E3779B97F4A7C15ULL;
  uint64_t z = random_state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

void Broker::Arm(Timed& timed, Instant at) {
  if (timed.serial == 0) timed.serial = next_serial_++;
  timers_.Set(timed, at);
}

BrokerStats Broker::Stats() const {
  return BrokerStats{.sessions = sessions_.size(),
                     .leases = leases_.size(),
                     .waiters = waiters_.size(),
                     .discards = give_backs_.size(),
                     .queues = queues_.size(),
                     .watches = watches_.size(),
                     .ops = ops_.size(),
                     .timers = timers_.size(),
                     .draining = draining_};
}

}  // namespace distlock::core
