// SPDX-License-Identifier: Apache-2.0
#include "core/sessions.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/limits.h"

namespace distlock::core {

void Sessions::Open(const OpenSession& in, Instant drain_deadline) {
  auto& session = sessions_[in.session];
  DISTLOCK_CHECK(session == nullptr);
  session = std::make_unique<Session>(belongs_to_);
  session->serial = core_.NextSerial();
  session->id = in.session;
  session->kind = in.kind;
  session->heartbeat_at = core_.now;
  if (in.kind == SessionKind::kSession) {
    session->promised_until = core_.now + core_.config.validity;
    core_.Arm(*session, session->promised_until);
  }
  if (core_.draining) {
    core_.Tell({in.session, 0}, Draining{std::max<Duration>(drain_deadline - core_.now, Duration::zero())});
  }
}

void Sessions::Handle(const Heartbeat& in) {
  const auto found = sessions_.find(in.session);
  if (found == sessions_.end() || found->second->kind != SessionKind::kSession) return;
  Session& session = *found->second;
  session.heartbeat_seq = std::max(session.heartbeat_seq, in.seq);
  session.heartbeat_at = core_.now;
  session.promised_until = core_.now + core_.config.validity;
  core_.Arm(session, session.promised_until);
  HeartbeatAck ack{.seq = in.seq, .valid_for = core_.Shortened(core_.config.validity)};
  CollectLimits(session, ack);
  core_.Tell({session.id, 0}, std::move(ack));
}

std::string Sessions::WhyFull(const Session& session, size_t more) const {
  const size_t has = session.leases.size() + session.waiters.size() + session.bundles.size();
  if (has + more <= core_.config.max_leases_per_session) return "";
  return "the session may have " + std::to_string(core_.config.max_leases_per_session) + " leases and waiters";
}

// Leases that end before the promise would. In calm times a lower bound of all ends spares the walk.
void Sessions::CollectLimits(Session& session, HeartbeatAck& ack) const {
  if (session.least_belief >= session.promised_until) return;
  session.least_belief = kNever;
  for (const auto& [request, lease] : session.leases) {
    const Instant until = BelieveUntil(*lease);
    session.least_belief = std::min(session.least_belief, until);
    if (until < session.promised_until) {
      ack.limits.push_back({request, core_.Shortened(until - core_.now)});
    }
  }
}

// A Hold stream has no heartbeat: the broker promises again every third of the validity, or of a ttl that is shorter.
void Sessions::PromiseOnHold(Session& session) {
  for (auto& [request, lease] : session.leases) {
    if (BelieveUntil(*lease) <= core_.now) continue;
    const Belief belief = PromiseNow(*lease);
    core_.Tell(lease->recipient,
               Renewed{lease->name, lease->owner, lease->token, belief.since_granted, belief.valid_for});
  }
  if (session.leases.empty()) return;
  const Lease& lease = *session.leases.begin()->second;  // a Hold has one
  core_.Arm(session, core_.now + std::min(core_.config.validity, lease.ttl) / 3);
}

Granted Sessions::GrantedOf(const Lease& lease, Mode mode, StoreTime since) const {
  return {.name = lease.name,
          .mode = mode,
          .owner = lease.owner,
          .token = lease.token,
          .since = since,
          .ttl = lease.ttl,
          .replicas = core_.config.store.replicas};
}

void Sessions::Give(Session& session, RequestId request, Lease& lease, Granted granted) {
  session.leases.emplace(request, &lease);
  session.least_belief = std::min(session.least_belief, BelieveUntil(lease));
  Promise(session, lease, granted);
  core_.Tell({session.id, request}, std::move(granted));
}

void Sessions::Promise(Session& session, Lease& lease, Granted& granted) {
  if (session.kind == SessionKind::kHold) {
    const Belief belief = PromiseNow(lease);
    granted.since_granted = belief.since_granted;
    granted.valid_for = belief.valid_for;
    core_.Arm(session, core_.now + std::min(core_.config.validity, lease.ttl) / 3);
  } else {
    granted.echo_seq = session.heartbeat_seq;
    granted.valid_for = core_.Shortened(std::min(session.promised_until, BelieveUntil(lease)) - session.heartbeat_at);
  }
}

// The client of a Hold cannot tell how long a message was under way once the clocks have drifted apart, so a part of
// each promise stays untold: of the whole validity, or of a promise that is shorter because max_hold or the ttl ends
// soon.
Sessions::Belief Sessions::PromiseNow(Lease& lease) const {
  const Duration promise =
      std::clamp<Duration>(BelieveUntil(lease) - core_.now, Duration::zero(), core_.config.validity);
  lease.promised_until = std::max(lease.promised_until, core_.now + promise);
  return {.since_granted = core_.Stretched(core_.now - lease.granted),
          .valid_for = core_.Shortened(promise - std::min(promise, lease.ttl) / kHoldReserve)};
}

void Sessions::Reacquire(Session& session, Lease& lease, RequestId request, Duration waited) {
  lease.reentry->others.push_back(request);
  Granted granted = GrantedOf(lease, lease.reentry->want.mode);
  granted.waited = core_.Shortened(waited);
  granted.hold_count = static_cast<uint32_t>(lease.reentry->others.size() + 1);
  core_.Note({.kind = FactKind::kGranted, .value = waited, .name = lease.name});
  Give(session, request, lease, std::move(granted));
}

bool Sessions::LeaveOne(Lease& lease, RequestId request) {
  if (lease.reentry == nullptr || lease.reentry->others.empty()) return false;
  std::vector<RequestId>& others = lease.reentry->others;
  if (lease.recipient.request == request) {
    lease.recipient.request = others.front();
    others.erase(others.begin());
  } else {
    std::erase(others, request);
  }
  Find(lease.recipient.session)->leases.erase(request);
  return true;
}

void Sessions::Unlist(Lease& lease) {
  Session* const found = Find(lease.recipient.session);
  lease.recipient.session = 0;
  if (found == nullptr) return;
  Session& session = *found;
  session.leases.erase(lease.recipient.request);
  if (lease.reentry == nullptr) return;
  for (const RequestId other : lease.reentry->others) session.leases.erase(other);
  session.reentrant.erase({lease.name, lease.reentry->label});
}

std::vector<Lease*> Sessions::LeasesOf(const Session& session) {
  std::vector<Lease*> leases;
  for (const auto& [request, lease] : session.leases) {
    if (lease->recipient.request == request) leases.push_back(lease);
  }
  return leases;
}

void Sessions::Close(Session& session, StreamEnd why) {
  core_.Tell({session.id, 0}, EndStream{why});
  Forget(session);
}

void Sessions::Forget(Session& session) {
  core_.timers.Cancel(session);
  const SessionId id = session.id;
  sessions_.erase(id);
}

size_t Sessions::Check() const {
  size_t deadlines = 0;
  for (const auto& [id, session] : sessions_) {
    DISTLOCK_CHECK(session->id == id);
    // Without a heartbeat it ends with its promise.
    DISTLOCK_CHECK(session->kind != SessionKind::kSession || session->at == session->promised_until);
    for (const auto& [request, lease] : session->leases) {
      DISTLOCK_CHECK(!lease->ending && lease->bundle == nullptr && lease->recipient.session == id);
      DISTLOCK_CHECK(session->least_belief <= BelieveUntil(*lease));
      // A request has one answer to come.
      DISTLOCK_CHECK(!session->waiters.contains(request) && !session->bundles.contains(request));
    }
    for (const auto& [request, waiter] : session->waiters) {
      DISTLOCK_CHECK(waiter->bundle == nullptr && !session->bundles.contains(request));
    }
    deadlines += session->at != kNever;
  }
  return deadlines;
}

Session* Sessions::Find(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : found->second.get();
}

}  // namespace distlock::core
