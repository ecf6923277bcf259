// SPDX-License-Identifier: Apache-2.0
#include "core/stream_ends.h"

#include <string>

#include "core/bundles.h"
#include "core/leases.h"
#include "core/sessions.h"
#include "core/waiters.h"

namespace distlock::core {

void StreamEnds::OnTimer(Session& session) {
  if (session.kind == SessionKind::kHold) return of_.sessions.PromiseOnHold(session);
  core_.Note({.kind = FactKind::kSessionLapsed});
  const std::string cause = "no heartbeat for a whole validity";
  for (Lease* lease : Sessions::LeasesOf(session)) {
    of_.leases.TellLost(*lease, LostReason::kExpired, cause);
  }
  of_.bundles.EndAllOf(session, /*keep=*/true);
  EndLeases(session);
  KeepWaitersForRetry(session, nullptr);
  Close(session, StreamEnd::kLapsed);
}

size_t StreamEnds::Check() const { return of_.sessions.Check(); }

void StreamEnds::Handle(const Goodbye& in) {
  Session* const session = of_.sessions.Find(in.session);
  if (session == nullptr) return;
  of_.bundles.EndAllOf(*session, /*keep=*/false);
  for (Waiter* waiter : WaitersOf(*session)) of_.waiters.Withdraw(*waiter);
  for (Lease* lease : Sessions::LeasesOf(*session)) {
    of_.leases.Release(*lease, Recipient{}, Duration::zero(), /*keeps_min_hold=*/true);
  }
  Close(*session, StreamEnd::kGoodbye);
}

void StreamEnds::Handle(const StreamEnded& in) {
  DropCalls(in.session);
  if (Session* const session = of_.sessions.Find(in.session); session != nullptr) {
    of_.bundles.EndAllOf(*session, /*keep=*/true);
    KeepWaitersForRetry(*session, nullptr);
    EndLeases(*session);
    of_.sessions.Forget(*session);
  }
}

// As the end of the stream, but what would wait for the end of belief waits no more.
void StreamEnds::Handle(const HolderDied& in) {
  if (Session* const session = of_.sessions.Find(in.session); session != nullptr) {
    of_.bundles.EndAllOf(*session, /*keep=*/true);
    KeepWaitersForRetry(*session, nullptr);
    EndLeases(*session);
    Close(*session, StreamEnd::kHolderDied);
  }
  const uint32_t freed = of_.leases.FreeEndingOf(in.session);
  if (freed > 0) core_.Note({.kind = FactKind::kHolderDied, .count = freed, .detail = in.who});
}

void StreamEnds::EndLeases(const Session& session) {
  for (Lease* lease : Sessions::LeasesOf(session)) of_.leases.End(*lease);
}

std::vector<Waiter*> StreamEnds::WaitersOf(const Session& session) {
  std::vector<Waiter*> waiters;
  for (const auto& [request, waiter] : session.waiters) {
    if (waiter->callers.front().recipient.request == request) waiters.push_back(waiter);
  }
  return waiters;
}

void StreamEnds::KeepWaitersForRetry(const Session& session, const Refused* refused) {
  for (Waiter* waiter : WaitersOf(session)) of_.waiters.KeepForRetry(*waiter, refused);
}

void StreamEnds::Close(Session& session, StreamEnd why) {
  const SessionId id = session.id;
  of_.sessions.Close(session, why);
  DropCalls(id);
}

void StreamEnds::DropCalls(SessionId session) {
  for (Part* const part : parts_) part->OnStreamEnd(session);
}

}  // namespace distlock::core
