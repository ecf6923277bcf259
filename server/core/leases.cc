// SPDX-License-Identifier: Apache-2.0
#include "core/leases.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {
namespace {

std::string WhyNotRenewed(const StoreReply& reply) {
  if (const auto* failed = std::get_if<StoreFailed>(&reply.outcome)) return failed->cause;
  if (const auto* unknown = std::get_if<StoreUnknown>(&reply.outcome)) return unknown->cause;
  return "an answer of unknown shape";
}

}  // namespace

Lease& Leases::Keep(const Acquire& spec, const GrantNews& news, Instant may_run_until) {
  auto lease = std::make_unique<Lease>(*this);
  lease->name = spec.name;
  lease->owner = spec.owner;
  lease->token = news.token;
  lease->ttl = news.ttl;
  lease->lock_delay = spec.lock_delay;
  lease->has_min_hold = spec.min_hold > Duration::zero();
  lease->granted = core_.now;
  lease->deadline = news.deadline;
  lease->on_disconnect = spec.on_disconnect;
  lease->resume = spec.resume;
  lease->may_run_until = may_run_until;
  return Keep(std::move(lease), news.deadline - news.ttl + core_.Margin(news.ttl));
}

Lease& Leases::Keep(std::unique_ptr<Lease> lease, Instant sent) {
  lease->serial = core_.NextSerial();
  renewals_.Schedule(*lease, sent);
  return claims_.Hold(std::move(lease));
}

void Leases::Arm(Lease& lease) {
  if (lease.ending) return core_.Arm(lease, std::min(lease.free_at, lease.deadline));
  core_.Arm(lease, std::min({lease.deadline, lease.hold_until, lease.next_renew}));
}

void Leases::OnTimer(Lease& lease) {
  if (lease.ending) {
    // The client's belief has ended, so the lock may go to the next waiter.
    return Release(lease, Listener{}, lease.lock_delay);
  }
  if (core_.now >= lease.hold_until && lease.hold_until <= lease.deadline) {
    return Lose(lease, LostReason::kMaxHold, "held for max_hold");
  }
  if (core_.now >= lease.deadline) {
    return Lose(lease, LostReason::kExpired, "could not be renewed in time: " + renewals_.Trouble());
  }
  if (core_.now < lease.next_renew) return Arm(lease);
  if (lease.renew_op != 0 || lease.renew_due) MarkAtRisk(lease, "no answer from the store in time");
  RenewSoon(lease);
}

// The command may leave a little later; next_renew is when an answer is overdue.
void Leases::RenewSoon(Lease& lease) {
  lease.next_renew = core_.now + lease.ttl / 6;
  Arm(lease);
  renewals_.Enqueue(lease);
}

void Leases::RenewAtRisk() {
  for (auto& [serial, lease] : at_risk_) RenewSoon(*lease);
}

void Leases::SendRenewals() {
  if (renewals_.empty()) return;
  if (core_.store_up) return renewals_.Send();
  while (Lease* lease = renewals_.PopDue()) MarkAtRisk(*lease, core_.store_trouble);
  renewals_.StopPacing();
}

void Leases::OnReply(const Op& op, OpId id, StoreReply& reply) {
  const auto* done = std::get_if<RenewDoneBatch>(&reply.outcome);
  if (done != nullptr && done->results.size() != op.owners.size()) done = nullptr;
  const std::string trouble = done == nullptr ? WhyNotRenewed(reply) : done->trouble;
  renewals_.OnAnswered(id, trouble);
  uint32_t renewed = 0;
  uint32_t failed = 0;
  for (size_t i = 0; i < op.owners.size(); ++i) {
    Lease* const found = claims_.LeaseOf(op.owners[i]);
    if (found == nullptr || found->ending) continue;
    Lease& lease = *found;
    if (lease.renew_op == id) lease.renew_op = 0;
    if (done == nullptr || done->results[i] == RenewResult::kUnanswered) {
      ++failed;
      if (lease.renew_op == 0) MarkAtRisk(lease, trouble);
      Arm(lease);
      continue;
    }
    if (done->results[i] == RenewResult::kMoved) {
      Move(lease);
      continue;
    }
    if (done->results[i] != RenewResult::kRenewed) {
      Lose(lease, LostReason::kTaken,
           done->results[i] == RenewResult::kGone ? "the store no longer has it" : "the store has another holder");
      continue;
    }
    ++renewed;
    OnRenewed(lease, op.sent);
  }
  if (renewed > 0) core_.Note({.kind = FactKind::kRenewed, .count = renewed});
  if (failed > 0) core_.Note({.kind = FactKind::kRenewFailed, .count = failed});
}

// A renewal sent at `sent` has started the ttl anew.
void Leases::OnRenewed(Lease& lease, Instant sent) {
  lease.deadline = std::max(lease.deadline, sent + lease.ttl - core_.Margin(lease.ttl));
  // A later attempt under way has set next_renew already.
  if (lease.renew_op == 0 && !lease.renew_due) renewals_.Schedule(lease, sent);
  if (lease.at_risk) {
    lease.at_risk = false;
    at_risk_.erase(lease.serial);
    const Sessions::Belief belief = sessions_.PromiseNow(lease);
    sessions_.TellHolder(lease, Renewed{lease.name, lease.owner, lease.token, belief.since_granted, belief.valid_for});
  }
  Arm(lease);
}

void Leases::MarkAtRisk(Lease& lease, const std::string& cause) {
  if (lease.at_risk) return;
  lease.at_risk = true;
  at_risk_.emplace(lease.serial, &lease);
  core_.Note({.kind = FactKind::kAtRisk, .name = lease.name, .detail = cause});
  const Sessions::Belief belief = sessions_.PromiseNow(lease);
  sessions_.TellHolder(lease,
                       AtRisk{lease.name, lease.owner, lease.token, belief.since_granted, belief.valid_for, cause});
}

}  // namespace distlock::core
