// SPDX-License-Identifier: Apache-2.0
#include "core/broker.h"

#include <optional>
#include <variant>

#include "core/check.h"

namespace distlock::core {

Broker::Broker(const BrokerConfig& config) : core_(config) {}

Broker::~Broker() = default;

void Broker::Step(Instant now, Input&& input, std::vector<Effect>& effects) {
  core_.BeginStep(now, effects);
  ExpireDue();
  std::visit([this](auto& in) { Handle(in); }, input);
  leases_.SendRenewals();
  releases_.SendDeferred();
  drain_.FinishWhenEmpty();
  core_.EndStep();
}

void Broker::ExpireDue() {
  while (Timed* const due = core_.timers.PopDue(core_.now)) {
    PartRecord& record = static_cast<PartRecord&>(*due);
    record.part.OnDue(record);
    AskReleased();
  }
}

// Requests that waited until their owner was released are sent now.
void Broker::AskReleased() {
  for (const OwnerId& owner : releases_.TakeGone()) waiters_.OnReleased(owner);
}

void Broker::Handle(const Cancel& in) {
  Session* const session = sessions_.Find(in.session);
  if (session == nullptr) return;
  if (const auto lease = session->leases.find(in.acquire); lease != session->leases.end()) {
    core_.Tell({in.session, in.acquire}, Refused{.reason = RefusalReason::kCancelled});
    if (sessions_.LeaveOne(*lease->second, in.acquire)) return;
    return leases_.Release(*lease->second, Recipient{}, Duration::zero());
  }
  if (adoptions_.Cancel(in.session, in.acquire)) return;
  if (const auto bundle = session->bundles.find(in.acquire); bundle != session->bundles.end()) {
    return bundles_.Refuse(*bundle->second, Refused{.reason = RefusalReason::kCancelled});
  }
  const auto waiter = session->waiters.find(in.acquire);
  if (waiter != session->waiters.end()) callers_.Cancel(*waiter->second, in.acquire);
}

void Broker::Handle(const StoreUp& in) {
  core_.store_up = true;
  if (in.renew_all) {
    RenewAll();
    grants_.RejoinAll();
  } else {
    leases_.RenewAtRisk();
  }
  for (Part* const part : parts_) part->OnStoreUp();
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
  if (!op) return;
  // First those whom it lets in, then the caller whose command it was.
  std::visit(
      [&](const auto& done) {
        if constexpr (requires { done.next; }) grants_.HandOffAll(*op, done.next, done.look);
      },
      in.outcome);
  op->sender->OnReply(*op, in.op, in);
  AskReleased();
}

void Broker::Handle(const StoreClockStep& in) {
  core_.Note({.kind = FactKind::kClockStep, .value = in.by});
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
  bundles_.RenewTaken();
}

void Broker::Check() const {
  size_t deadlines = stream_ends_.Check() + leases_.Check() + drain_.Check();
  for (const Part* const part : parts_) deadlines += part->Check();
  claims_.Check();
  core_.timers.Check();
  // No record that is gone has left its deadline behind.
  DISTLOCK_CHECK(deadlines == core_.timers.size());
}

BrokerStats Broker::Stats() const {
  return BrokerStats{.sessions = sessions_.all().size(),
                     .leases = claims_.leases(),
                     .waiters = claims_.waiters(),
                     .pending_releases = claims_.releases(),
                     .queues = queues_.size(),
                     .watches = watches_.size(),
                     .ops = core_.ops_in_flight(),
                     .timers = core_.timers.size(),
                     .draining = core_.draining};
}

}  // namespace distlock::core
