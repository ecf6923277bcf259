// SPDX-License-Identifier: Apache-2.0
#include "core/adoptions.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/check.h"
#include "core/refusal_causes.h"

namespace distlock::core {
namespace {

// Ids of leases are not signed, so a caller can leave adoptions open that never were.
constexpr size_t kMostLeftOpen = 100'000;

const char* NameOf(Mode mode) {
  return mode == Mode::kExclusive ? "EXCLUSIVE" : mode == Mode::kShared ? "SHARED" : "PERMIT";
}

bool IsCancelled(const AdoptCall& call, RequestId hold) {
  return std::find(call.cancelled.begin(), call.cancelled.end(), hold) != call.cancelled.end();
}

}  // namespace

void Adoptions::Handle(Adopt& in) {
  const Session* const session = sessions_.Find(in.session);
  if (session == nullptr) return;  // ended meanwhile: its end answers everything
  if (core_.draining) return RefuseAtOnce(in, RefusalReason::kDraining, "");
  if (!core_.Supports(in.want)) return RefuseAtOnce(in, RefusalReason::kNotSupported, kNoPermits);
  if (std::string why = sessions_.WhyFull(*session, in.hold_count); !why.empty()) {
    return RefuseAtOnce(in, RefusalReason::kQuotaExceeded, std::move(why));
  }
  if (!in.reentry.empty() && session->reentrant.contains({in.name, in.reentry})) {
    return RefuseAtOnce(in, RefusalReason::kInvalidArgument,
                        "this session has the lock, or waits for it, under the same owner already");
  }
  const Lease* const former = claims_.LeaseOf(in.from);
  if (former != nullptr && former->recipient.session == in.session && former->reentry != nullptr) {
    return RefuseAtOnce(in, RefusalReason::kInvalidArgument, "this session has the lease already, and it is reentrant");
  }
  if (claims_.IsReleasing(in.from, in.token)) {
    return RefuseAtOnce(in, RefusalReason::kNotHolder, "it is being given back");
  }
  AdoptCall* const call = Begin(std::move(in), core_.config.store_timeout);
  if (call == nullptr) return;
  claims_.AddAdoption(call->request.owner);
  Send(*call);
}

bool Adoptions::Cancel(SessionId session, RequestId request) {
  AdoptCall* const call = FindUpTo({session, request});
  if (call == nullptr || request - call->request.request >= call->request.hold_count) return false;
  if (!IsCancelled(*call, request)) call->cancelled.push_back(request);
  return true;
}

void Adoptions::RefuseAtOnce(const Adopt& in, RefusalReason reason, std::string cause) {
  core_.Note({.kind = FactKind::kRefused, .refusal = reason, .name = in.name});
  const Refused refused{.reason = reason, .cause = std::move(cause)};
  for (uint32_t i = 0; i < in.hold_count; ++i) core_.Tell({in.session, in.request + i}, refused);
}

void Adoptions::Refuse(AdoptCall& call, RefusalReason reason, std::string cause) {
  const Adopt& in = call.request;
  const auto answer = [&](RequestId hold) {
    return Refused{.reason = IsCancelled(call, hold) ? RefusalReason::kCancelled : reason, .cause = cause};
  };
  for (uint32_t i = 1; i < in.hold_count; ++i) core_.Tell({in.session, in.request + i}, answer(in.request + i));
  Answer(call, answer(in.request));
}

void Adoptions::Send(AdoptCall& call) {
  if (!core_.store_up) return AwaitStore(call);
  const Adopt& adopt = call.request;
  const Duration timeout = CoreContext::AttemptTimeout(adopt.ttl);
  const OpId id = BeginAttempt(call, timeout);
  core_.Command(StoreAdopt{.op = id,
                           .name = adopt.name,
                           .from = adopt.from,
                           .token = adopt.token,
                           .owner = adopt.owner,
                           .want = adopt.want,
                           .run_before = core_.now + timeout,
                           .tell_wanted = adopt.tell_wanted,
                           .info = adopt.info});
}

void Adoptions::OnTimer(AdoptCall& call) {
  if (core_.now >= call.until) LeaveOpen(call);
  RetryingCalls::OnTimer(call);
}

void Adoptions::OnReply(const Op& op, OpId id, StoreReply& reply) {
  AdoptCall* const call = Find(op.recipient);
  if (call == nullptr) return;
  const auto* done = std::get_if<AdoptDone>(&reply.outcome);
  if (done == nullptr) {
    if (call->op != id || RefuseForeignKey(*call, reply)) return;
    return RetryAfter(*call, reply, call->attempts);
  }
  switch (done->result) {
    case AdoptDone::Result::kAdopted:
      return OnAdopted(*call, *done, op.sent);
    case AdoptDone::Result::kGone:
      return Refuse(*call, RefusalReason::kNotHolder, "the store has no such holder");
    case AdoptDone::Result::kLater:
      return Refuse(*call, RefusalReason::kCancelled, "a later try with the same request_id has it");
    case AdoptDone::Result::kAnotherMode:
      return Refuse(*call, RefusalReason::kNotSupported,
                    std::string("it is held ") + NameOf(done->mode) + "; adopt it as it is held");
  }
}

void Adoptions::OnAdopted(AdoptCall& call, const AdoptDone& done, Instant sent) {
  Duration& max_hold = call.request.max_hold;
  if (done.max_hold > Duration::zero()) {
    max_hold = max_hold > Duration::zero() ? std::min(max_hold, done.max_hold) : done.max_hold;
  }
  const bool over = call.request.max_hold > Duration::zero() && done.held_for >= call.request.max_hold;
  const std::vector<RequestId> cancelled = call.cancelled;
  const bool is_wanted = cancelled.size() < call.request.hold_count;
  // Too late to be believed; asking again begins the ttl anew.
  if (!over && is_wanted && core_.now >= core_.DeadlineOf(sent, done.ttl)) return Send(call);
  const Instant former_believes_until = ForgetFormer(call.request, done.ttl);
  if (!over && is_wanted) {
    std::vector<RequestId> holds;
    for (uint32_t i = 0; i < call.request.hold_count; ++i) {
      if (!IsCancelled(call, call.request.request + i)) holds.push_back(call.request.request + i);
    }
    const Adopt in = call.request;
    End(call);
    // The grants first: a refusal before them would be taken for that of all holds.
    Grant(in, holds, done, sent, former_believes_until);
    for (const RequestId hold : cancelled) {
      core_.Tell({in.session, hold}, Refused{.reason = RefusalReason::kCancelled});
    }
    return;
  }
  const Adopt in = call.request;
  Refuse(call, RefusalReason::kNotHolder, "it was held for max_hold");
  // Its client gave it up. Else the former stream's belief, whose max_hold began a little later, ends before the ttl.
  if (is_wanted) return;
  releases_.Pursue(releases_.StartRelease(in.name, in.owner, Duration::zero(), done.ttl + done.lock_delay, in.token));
}

void Adoptions::OnEnd(const AdoptCall& call, bool is_answered) {
  claims_.RemoveAdoption(call.request.owner);
  if (!is_answered) LeaveOpen(call);
}

// The call ends before its answer: the store may have the new owner, and the client goes on believing by the former
// promise.
void Adoptions::LeaveOpen(const AdoptCall& call) {
  if (call.attempts == 0 || claims_.left() >= kMostLeftOpen) return;
  const Instant until = core_.now + call.request.ttl;
  claims_.LeaveToTtl(call.request.owner, until, until);
}

// The lease may have been this broker's, on a stream that is still here or has just broken. Returns until when another
// stream's promise may be believed in: of the same session there is none.
Instant Adoptions::ForgetFormer(const Adopt& in, Duration ttl) {
  Lease* const former = claims_.LeaseOf(in.from);
  if (former == nullptr || former->token != in.token) return core_.now + ttl;
  const Instant of_others = former->recipient.session == in.session ? former->former_believes_until : core_.now + ttl;
  leases_.Move(*former);
  return of_others;
}

void Adoptions::Grant(const Adopt& in, const std::vector<RequestId>& holds, const AdoptDone& done, Instant sent,
                      Instant former_believes_until) {
  Session* const found = sessions_.Find(in.session);
  DISTLOCK_CHECK(found != nullptr);
  Session& session = *found;
  const Duration held_for = std::max<Duration>(done.held_for, Duration::zero());

  auto owned = std::make_unique<Lease>(leases_);
  Lease& lease = *owned;
  lease.name = in.name;
  lease.owner = in.owner;
  lease.recipient = {in.session, holds.front()};
  lease.token = in.token;
  lease.ttl = done.ttl;
  lease.lock_delay = done.lock_delay;
  lease.has_min_hold = done.min_hold > Duration::zero();
  lease.granted = core_.now;
  lease.deadline = core_.DeadlineOf(sent, done.ttl);
  // The store's reckoning is as old as its answer may be.
  if (in.max_hold > Duration::zero()) lease.hold_until = sent + in.max_hold - held_for;
  lease.former_believes_until = former_believes_until;
  lease.adopted_until = std::max(former_believes_until, session.promised_until);
  lease.on_disconnect = in.on_disconnect;
  lease.resume = in.resume;
  lease.tell_wanted = in.tell_wanted;
  if (!in.reentry.empty()) {
    lease.reentry = std::make_unique<Reentry>(Reentry{.label = in.reentry, .want = in.want});
    session.reentrant[{in.name, in.reentry}] = in.owner;
  }
  leases_.Begin(std::move(owned), sent);
  core_.Note({.kind = FactKind::kAdopted, .name = in.name});
  sessions_.Give(session, holds.front(), lease, sessions_.GrantedOf(lease, in.want.mode, done.since));
  for (size_t i = 1; i < holds.size(); ++i) sessions_.Reacquire(session, lease, holds[i], Duration::zero());
  leases_.Arm(lease);
  wants_.AskWhoWaits(lease);
}

}  // namespace distlock::core
