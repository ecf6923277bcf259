// SPDX-License-Identifier: Apache-2.0
#include "core/broker.h"

#include <algorithm>
#include <type_traits>

#include "core/check.h"
#include "core/limits.h"
#include "core/prefetch.h"

namespace distlock::core {

Broker::Broker(const BrokerConfig& config) : core_(config) {}

Broker::~Broker() = default;

void Broker::Step(Instant now, Input&& input, std::vector<Effect>& effects) {
  core_.BeginStep(now, effects);
  ExpireDue();
  std::visit([this](auto& in) { Handle(in); }, input);
  SendRenewals();
  releases_.SendDeferred();
  FinishDrainWhenEmpty();
  core_.EndStep();
}

void Broker::ExpireDue() {
  while (Timed* due = timers_.PopDue(now_)) {
    if (const Timed* next = timers_.Next()) PrefetchRange(next, sizeof(Lease));  // most are leases
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
      case TimerKind::kPendingRelease:
        OnReleaseTimer(static_cast<PendingRelease&>(*due));
        break;
      case TimerKind::kQueue:
        OnQueueTimer(static_cast<LocalQueue&>(*due));
        break;
      case TimerKind::kRenewCall:
        renew_calls_.OnTimer(static_cast<RenewCall&>(*due));
        break;
      case TimerKind::kWatch:
        watches_.OnTimer(static_cast<Watch&>(*due));
        break;
      case TimerKind::kDrain:
        DrainNow();
        break;
      case TimerKind::kBundle:
        OnBundleTimer(static_cast<Bundle&>(*due));
        break;
      case TimerKind::kDowngrade:
        downgrades_.OnTimer(static_cast<DowngradeCall&>(*due));
        break;
      case TimerKind::kForceCall:
        force_calls_.OnTimer(static_cast<ForceCall&>(*due));
        break;
      case TimerKind::kPace:
        break;  // every Step sends what may leave
    }
  }
}

void Broker::Handle(const StoreUp& in) {
  store_up_ = true;
  core_.HearFromStore();
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
  releases_.OnStoreUp();
  for (auto& [name, queue] : queues_) Tend(*queue);
  watches_.LookAtAll();
  renew_calls_.OnStoreUp();
  downgrades_.OnStoreUp();
}

void Broker::Handle(const StoreDown& in) {
  if (store_up_) down_since_ = now_;
  store_up_ = false;
  store_trouble_ = in.cause;
}

void Broker::Handle(const ChannelUp&) {
  for (auto& [name, queue] : queues_) Tend(*queue);
  watches_.LookAtAll();
}

void Broker::Handle(StoreReply& in) {
  const std::optional<Op> answered = core_.TakeOp(in.op);
  if (!answered) return;
  const Op& op = *answered;
  const bool heard = !std::holds_alternative<StoreUnknown>(in.outcome) &&
                     !(std::holds_alternative<StoreFailed>(in.outcome) &&
                       std::get<StoreFailed>(in.outcome).kind == FailureKind::kNotSent);
  if (heard) core_.HearFromStore();
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
      renew_calls_.OnReply(op, in.op, in);
      break;
    case Op::Verb::kRelease:
      OnReleaseReply(op, in);
      break;
    case Op::Verb::kTend:
      OnTendReply(op, in.op, in);
      break;
    case Op::Verb::kWatch:
      watches_.OnReply(op, in.op, in);
      break;
    case Op::Verb::kDowngrade:
      OnDowngradeReply(op, in);
      break;
    case Op::Verb::kForce:
      OnForceReply(op, in);
      break;
  }
}

BrokerStats Broker::Stats() const {
  return BrokerStats{.sessions = sessions_.size(),
                     .leases = leases_.size(),
                     .waiters = waiters_.size(),
                     .pending_releases = releases_.size(),
                     .queues = queues_.size(),
                     .watches = watches_.size(),
                     .ops = core_.ops_in_flight(),
                     .timers = timers_.size(),
                     .draining = draining_};
}

}  // namespace distlock::core
