// SPDX-License-Identifier: Apache-2.0
#include "core/broker.h"

#include <optional>
#include <variant>

#include "core/limits.h"

namespace distlock::core {

Broker::Broker(const BrokerConfig& config) : core_(config) {}

Broker::~Broker() = default;

void Broker::Step(Instant now, Input&& input, std::vector<Effect>& effects) {
  core_.BeginStep(now, effects);
  ExpireDue();
  std::visit([this](auto& in) { Handle(in); }, input);
  leases_.SendRenewals();
  releases_.SendDeferred();
  FinishDrainWhenEmpty();
  core_.EndStep();
}

void Broker::ExpireDue() {
  while (Timed* due = core_.timers.PopDue(core_.now)) {
    switch (due->kind) {
      case TimerKind::kWaiter:
        waiters_.OnTimer(static_cast<Waiter&>(*due));
        break;
      case TimerKind::kLease:
        leases_.OnTimer(static_cast<Lease&>(*due));
        break;
      case TimerKind::kSession:
        OnTimer(static_cast<Session&>(*due));
        break;
      case TimerKind::kPendingRelease:
        OnTimer(static_cast<PendingRelease&>(*due));
        break;
      case TimerKind::kQueue:
        queues_.OnTimer(static_cast<LocalQueue&>(*due));
        break;
      case TimerKind::kRenewCall:
        renew_calls_.OnTimer(static_cast<RenewCall&>(*due));
        break;
      case TimerKind::kWatch:
        watches_.OnTimer(static_cast<Watch&>(*due));
        break;
      case TimerKind::kDrain:
        EndDrain();
        break;
      case TimerKind::kBundle:
        bundles_.OnTimer(static_cast<Bundle&>(*due));
        break;
      case TimerKind::kDowngrade:
        downgrades_.OnTimer(static_cast<DowngradeCall&>(*due));
        break;
      case TimerKind::kAdopt:
        adoptions_.OnTimer(static_cast<AdoptCall&>(*due));
        break;
      case TimerKind::kForceCall:
        force_calls_.OnTimer(static_cast<ForceCall&>(*due));
        break;
      case TimerKind::kPace:
        break;  // every Step sends what may leave
    }
  }
}

void Broker::Handle(const Cancel& in) {
  Session* const session = sessions_.Find(in.session);
  if (session == nullptr) return;
  if (const auto lease = session->leases.find(in.acquire); lease != session->leases.end()) {
    core_.Tell({in.session, in.acquire}, Refused{.reason = RefusalReason::kCancelled, .cause = {}, .holders = {}});
    if (leases_.LeaveOne(*lease->second, in.acquire)) return;
    return leases_.Release(*lease->second, Listener{}, Duration::zero());
  }
  if (adoptions_.Cancel(in.session, in.acquire)) return;
  if (const auto bundle = session->bundles.find(in.acquire); bundle != session->bundles.end()) {
    return bundles_.Refuse(*bundle->second, Refused{.reason = RefusalReason::kCancelled, .cause = {}, .holders = {}});
  }
  const auto waiter = session->waiters.find(in.acquire);
  if (waiter != session->waiters.end()) waiters_.Cancel(*waiter->second, in.acquire);
}

void Broker::Handle(const StoreUp& in) {
  core_.store_up = true;
  in.renew_all ? RenewAll() : leases_.RenewAtRisk();
  waiters_.OnStoreUp();
  releases_.OnStoreUp();
  queues_.TendAll();
  watches_.LookAtAll();
  renew_calls_.OnStoreUp();
  downgrades_.OnStoreUp();
  adoptions_.OnStoreUp();
}

void Broker::Handle(const StoreDown& in) {
  if (core_.store_up) core_.down_since = core_.now;
  core_.store_up = false;
  core_.store_trouble = in.cause;
}

void Broker::Handle(const ChannelUp&) {
  queues_.TendAll();
  watches_.LookAtAll();
}

void Broker::Handle(StoreReply& in) {
  const std::optional<Op> op = core_.TakeOp(in.op);
  if (op) RouteReply(*op, in);
}

void Broker::Handle(const StoreClockStep& in) {
  core_.Note({.kind = FactKind::kClockStep, .value = in.by, .name = {}, .detail = {}});
  // A step forward has shortened every key's life: start all of them anew. What has ended by it hands on nothing, and
  // what was handed on before the step was seen carries stamps that seem to be of another time: look at each queue.
  RenewAll();
  queues_.TendAll();
  watches_.LookAtAll();
}

void Broker::RenewAll() {
  for (const auto& [id, session] : sessions_.all()) {
    for (auto& [request, lease] : session->leases) leases_.RenewSoon(*lease);
  }
  bundles_.RenewKept();
}

void Broker::RouteReply(const Op& op, StoreReply& reply) {
  switch (op.sender) {
    case Op::Sender::kWaiters:
      return waiters_.OnReply(op, reply.op, reply);
    case Op::Sender::kBundles:
      return bundles_.OnReply(op, reply.op, reply);
    case Op::Sender::kLeases:
      return leases_.OnRenewReply(op, reply.op, reply);
    case Op::Sender::kRenewCalls:
      return renew_calls_.OnReply(op, reply.op, reply);
    case Op::Sender::kReleases:
      if (const auto* done = std::get_if<GiveBackDone>(&reply.outcome)) grants_.HandOffAll(op, done->next, done->look);
      if (releases_.OnReply(op, reply.op, reply)) waiters_.OnReleased(op.owner);
      return;
    case Op::Sender::kQueues:
      return queues_.OnReply(op, reply.op, reply);
    case Op::Sender::kWatches:
      return watches_.OnReply(op, reply.op, reply);
    case Op::Sender::kDowngrades:
      if (const auto* done = std::get_if<DowngradeDone>(&reply.outcome)) grants_.HandOffAll(op, done->next, done->look);
      return downgrades_.OnReply(op, reply.op, reply);
    case Op::Sender::kAdoptions:
      return adoptions_.OnReply(op, reply.op, reply);
    case Op::Sender::kForceCalls:
      if (const auto* done = std::get_if<ForceDone>(&reply.outcome)) grants_.HandOffAll(op, done->next, done->look);
      return force_calls_.OnReply(op, reply.op, reply);
  }
}

void Broker::OnTimer(PendingRelease& release) {
  const OwnerId owner = release.owner;
  if (releases_.OnTimer(release)) waiters_.OnReleased(owner);
}

BrokerStats Broker::Stats() const {
  return BrokerStats{.sessions = sessions_.all().size(),
                     .leases = leases_.size(),
                     .waiters = waiters_.size(),
                     .pending_releases = releases_.size(),
                     .queues = queues_.size(),
                     .watches = watches_.size(),
                     .ops = core_.ops_in_flight(),
                     .timers = core_.timers.size(),
                     .draining = core_.draining};
}

}  // namespace distlock::core
