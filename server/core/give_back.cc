// SPDX-License-Identifier: Apache-2.0
//
// Broker: releases and withdrawals. What may exist in the store is given back until the store has confirmed it, or until
// it must have expired by itself.
#include <algorithm>
#include <utility>

#include "core/broker.h"
#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {

void Broker::Handle(const Release& in) {
  const Listener listener{in.session, in.request};
  if (in.acquire != 0) {
    if (const auto session = sessions_.find(in.session); session != sessions_.end()) {
      if (const auto lease = session->second->leases.find(in.acquire); lease != session->second->leases.end()) {
        Lease& taken = *lease->second;
        if (LeaveOne(taken, in.acquire)) {
          return Tell(listener, Released{ReleaseOutcome::kStillHeld, taken.name, taken.owner, taken.token});
        }
        return TakeBack(*lease->second, listener, in.lapsed);
      }
    }
    Note({.kind = FactKind::kAlreadyGone, .name = {}, .detail = {}});
    return Tell(listener, Released{.outcome = ReleaseOutcome::kAlreadyGone, .name = {}});
  }
  if (const auto kept = leases_.find(in.owner); kept != leases_.end() && kept->second->bundle != nullptr) {
    LosePart(*kept->second, "its owner released it");
  }
  if (const auto lease = leases_.find(in.owner); lease != leases_.end()) {
    if (in.token != 0 && in.token != lease->second->token) {
      Note({.kind = FactKind::kAlreadyGone, .name = in.name, .detail = {}});
      return Tell(listener, Released{.outcome = ReleaseOutcome::kAlreadyGone, .name = in.name, .owner = in.owner});
    }
    if (lease->second->listener.session != in.session || lease->second->reentry != nullptr) {
      TellHolder(*lease->second, Released{ReleaseOutcome::kReleased, in.name, in.owner, lease->second->token});
    }
    return TakeBack(*lease->second, listener, in.lapsed);
  }
  ForgetGrant(in.owner);
  GiveBack& give_back = StartGiveBack(in.name, in.owner, /*waiting=*/false, Duration::zero(),
                                      std::max<Duration>(in.ttl, kAttemptMax), in.token);
  if (give_back.listener.session != 0) {
    // Somebody else waits for the same answer; this one learns that it is under way.
    return Tell(listener, Released{.outcome = ReleaseOutcome::kAlreadyGone, .name = in.name, .owner = in.owner});
  }
  give_back.listener = listener;
  give_back.answer_until = now_ + config_.store_timeout;
  PursueGiveBack(give_back);
}

// One record per owner: a second reason to give back joins the first.
GiveBack& Broker::StartGiveBack(const LockName& name, const OwnerId& owner, bool waiting, Duration block,
                                Duration lifetime, uint64_t only_token) {
  auto& slot = give_backs_[owner];
  if (!slot) {
    slot = std::make_unique<GiveBack>();
    slot->serial = next_serial_++;
    slot->name = name;
    slot->owner = owner;
    slot->block = block;
  }
  if (waiting) {
    slot->waiting = true;
  } else {
    // Of two grants of one owner the earlier has ended.
    const bool any = only_token == 0 || (slot->holding && slot->only_token == 0);
    slot->only_token = any ? 0 : std::max(slot->only_token, only_token);
    slot->holding = true;
  }
  // A waiter's place lives as long as this broker's slot in the queue.
  const Duration most = std::max(lifetime, waiting ? config_.queue_slot : Duration::zero());
  slot->until = std::max(slot->until, now_ + 2 * most + config_.store_timeout);
  return *slot;
}

// Now, or with what has joined it when the command in flight is answered.
void Broker::PursueGiveBack(GiveBack& give_back) {
  return give_back.op == 0 ? SendGiveBack(give_back) : ArmGiveBack(give_back);
}

void Broker::SetOp(GiveBack& give_back, OpId op) {
  if (give_back.op != 0) --give_backs_sent_;
  if (op != 0) ++give_backs_sent_;
  give_back.op = op;
}

void Broker::HoldBack(GiveBack& give_back) {
  const uint64_t behind = give_back.listener.session == 0 ? uint64_t{1} << 63 : 0;
  give_back.held_as = behind | give_back.serial;
  held_back_.emplace(give_back.held_as, &give_back);
  give_back.retry_at = kNever;
  ArmGiveBack(give_back);
}

void Broker::SendHeldBack() {
  while (store_up_ && !held_back_.empty() && give_backs_sent_ < kMaxGiveBacksSent)
    SendGiveBack(*held_back_.begin()->second);
}

void Broker::SendGiveBack(GiveBack& give_back) {
  SetOp(give_back, 0);
  held_back_.erase(std::exchange(give_back.held_as, 0));
  if (store_up_ && give_backs_sent_ >= kMaxGiveBacksSent) return HoldBack(give_back);
  give_back.retry_at = now_ + kRetryMax;
  if (store_up_) {
    Op op;
    op.verb = Op::Verb::kGiveBack;
    op.owner = give_back.owner;
    op.name = give_back.name;
    SetOp(give_back, SendOp(std::move(op)));
    give_back.retry_at = now_ + kAttemptMax;
    ++give_back.attempts;
    const bool spares_grants = IsRepeatable(give_back.owner);
    // Withdrawing frees at once: a grant that is to be blocked, or that may be another's, is released first.
    const bool release_first = give_back.holding && (spares_grants || give_back.block > Duration::zero());
    give_back.withdrawing = give_back.waiting && !release_first;
    if (give_back.withdrawing) {
      Command(StoreWithdraw{give_back.op, give_back.name, give_back.owner, spares_grants});
    } else {
      give_back.releasing = give_back.only_token;
      Command(StoreRelease{give_back.op, give_back.name, give_back.owner, give_back.only_token, give_back.block});
    }
  }
  ArmGiveBack(give_back);
}

void Broker::ArmGiveBack(GiveBack& give_back) {
  Instant at = std::min(give_back.retry_at, give_back.until);
  if (give_back.listener.session != 0) at = std::min(at, give_back.answer_until);
  Arm(give_back, at);
}

void Broker::OnGiveBackTimer(GiveBack& give_back) {
  if (give_back.listener.session != 0 && now_ >= give_back.answer_until) {
    Tell(give_back.listener,
         Refused{.reason = RefusalReason::kStoreUnavailable,
                 .cause = "the release has not been confirmed; it is repeated until it is, or the ttl has ended it",
                 .retry_after = kRetryMax,
                 .holders = {}});
    give_back.listener = {};
  }
  if (now_ >= give_back.until) return FinishGiveBack(give_back);
  if (now_ >= give_back.retry_at) {
    if (give_back.op != 0) {
      give_back.overtaken = true;
      NoteSilence("releases unanswered");
    }
    return SendGiveBack(give_back);
  }
  ArmGiveBack(give_back);
}

void Broker::OnGiveBackReply(const Op& op, OpId id, StoreReply& reply) {
  const auto* done = std::get_if<GiveBackDone>(&reply.outcome);
  if (done != nullptr) {
    TakeNext(op, done->next, done->look);
  }
  const auto found = give_backs_.find(op.owner);
  if (found == give_backs_.end() || found->second->op != id) return;
  GiveBack& give_back = *found->second;
  SetOp(give_back, 0);
  if (done == nullptr) {
    const auto* failed = std::get_if<StoreFailed>(&reply.outcome);
    if (failed == nullptr) give_back.overtaken = true;
    if (failed != nullptr && failed->kind == FailureKind::kForeignKey) {
      AnswerGiveBack(give_back, false);
      return FinishGiveBack(give_back);
    }
    give_back.retry_at = now_ + (store_up_ ? BackOff(give_back.attempts) : kRetryMax);
    return ArmGiveBack(give_back);
  }
  if (const auto queue = queues_.find(give_back.name); give_back.block > Duration::zero() && queue != queues_.end()) {
    // Nobody is told when a lock_delay ends.
    Arm(*queue->second, std::min(queue->second->at, now_ + give_back.block + kExpirySlack));
  }
  if (give_back.withdrawing) give_back.waiting = false;
  if (give_back.withdrawing ? !IsRepeatable(give_back.owner) : give_back.releasing == give_back.only_token) {
    give_back.holding = false;
  }
  if (!give_back.holding) {
    // An earlier attempt of unknown outcome may be the one that freed a lease of ours.
    const bool ours_before = give_back.token != 0 && give_back.attempts > 1;
    AnswerGiveBack(give_back, done->was_holder || ours_before);
  }
  if (give_back.holding || give_back.waiting) return SendGiveBack(give_back);
  // The order of the release and an earlier acquire was lost with a connection: the acquire could still run.
  if (give_back.overtaken && give_back.straggler_until > op.sent) {
    give_back.waiting = true;
    give_back.retry_at = std::max(now_, give_back.straggler_until);
    give_back.until = std::max(give_back.until, give_back.straggler_until + kAttemptMax);
    return ArmGiveBack(give_back);
  }
  FinishGiveBack(give_back);
}

// What a command that made room has brought: grants to waiters of this broker, and whether there is more to do.
void Broker::TakeNext(const Op& op, const std::vector<HolderView>& all, bool look) {
  for (const HolderView& next : all) {
    HandOff(op.name, next.owner, next.token, next.since, next.ttl, op.sent + next.ttl - Margin(next.ttl),
            Arrival::kReply);
  }
  if (const auto queue = queues_.find(op.name); look && queue != queues_.end()) Tend(*queue->second);
}

void Broker::AnswerGiveBack(GiveBack& give_back, bool was_holder) {
  // That of a lease of ours was on record when it ended.
  const bool asked = give_back.listener.session != 0;
  if (give_back.token == 0 && (asked || was_holder)) {
    const FactKind kind = !asked ? FactKind::kGivenBack : was_holder ? FactKind::kReleased : FactKind::kAlreadyGone;
    Note({.kind = kind, .name = give_back.name, .detail = {}});
  }
  Tell(give_back.listener, Released{was_holder ? ReleaseOutcome::kReleased : ReleaseOutcome::kAlreadyGone,
                                    give_back.name, give_back.owner, give_back.token});
  give_back.listener = {};
}

void Broker::FinishGiveBack(GiveBack& give_back) {
  timers_.Cancel(give_back);
  SetOp(give_back, 0);
  held_back_.erase(give_back.held_as);
  const OwnerId owner = give_back.owner;
  give_backs_.erase(owner);
  // A repeat of the request that has come since: it was not asked for meanwhile, or its place or grant went with this.
  if (const auto waiter = waiters_.find(owner); waiter != waiters_.end()) {
    if (waiter->second->queued) LosePlace(*waiter->second);
    Ask(*waiter->second);
  }
}

}  // namespace distlock::core
