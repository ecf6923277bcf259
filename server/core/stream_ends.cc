// SPDX-License-Identifier: Apache-2.0
#include "core/stream_ends.h"

#include <string>

#include "core/bundles.h"
#include "core/leases.h"
#include "core/sessions.h"
#include "core/waiters.h"

namespace distlock::core {

void StreamEnds::OnTimer(Session& session) {
  if (session.kind == SessionKind::kHold) return sessions_.PromiseOnHold(session);
  core_.Note({.kind = FactKind::kSessionLapsed});
  const std::string cause = "no heartbeat for a whole validity";
  for (Lease* lease : Sessions::LeasesOf(session)) {
    leases_.TellLost(*lease, LostReason::kExpired, cause);
  }
  bundles_.EndAllOf(session, /*keep=*/true);
  EndLeases(session);
  KeepWaitersForRetry(session, nullptr);
  Close(session, StreamEnd::kLapsed);
}

size_t StreamEnds::Check() const { return sessions_.Check(); }

void StreamEnds::Handle(const Goodbye& in) {
  Session* const session = sessions_.Find(in.session);
  if (session == nullptr) return;
  bundles_.EndAllOf(*session, /*keep=*/false);
  for (Waiter* waiter : WaitersOf(*session)) waiters_.Withdraw(*waiter);
  for (Lease* lease : Sessions::LeasesOf(*session)) {
    leases_.Release(*lease, Recipient{}, Duration::zero(), /*keeps_min_hold=*/true);
  }
  Close(*session, StreamEnd::kGoodbye);
}

void StreamEnds::Handle(const StreamEnded& in) {
  TellParts(in.session);
  if (Session* const session = sessions_.Find(in.session); session != nullptr) {
    bundles_.EndAllOf(*session, /*keep=*/true);
    KeepWaitersForRetry(*session, nullptr);
    EndLeases(*session);
    sessions_.Forget(*session);
  }
}

// As the end of the stream, but what would wait for the end of belief waits no more.
void StreamEnds::Handle(const HolderDied& in) {
  if (Session* const session = sessions_.Find(in.session); session != nullptr) {
    bundles_.EndAllOf(*session, /*keep=*/true);
    KeepWaitersForRetry(*session, nullptr);
    EndLeases(*session);
    Close(*session, StreamEnd::kHolderDied);
  }
  const uint32_t freed = leases_.FreeEndingOf(in.session);
  if (freed > 0) core_.Note({.kind = FactKind::kHolderDied, .count = freed, .detail = in.who});
}

void StreamEnds::EndLeases(const Session& session) {
  for (Lease* lease : Sessions::LeasesOf(session)) leases_.EndWithStream(*lease);
}

std::vector<Waiter*> StreamEnds::WaitersOf(const Session& session) {
  std::vector<Waiter*> waiters;
  for (const auto& [request, waiter] : session.waiters) {
    if (waiter->callers.front().recipient.request == request) waiters.push_back(waiter);
  }
  return waiters;
}

void StreamEnds::KeepWaitersForRetry(const Session& session, const Refused* refused) {
  for (Waiter* waiter : WaitersOf(session)) waiters_.KeepForRetry(*waiter, refused);
}

void StreamEnds::Close(Session& session, StreamEnd why) {
  const SessionId id = session.id;
  sessions_.Close(session, why);
  TellParts(id);
}

void StreamEnds::TellParts(SessionId session) {
  for (Part* const part : parts_) part->OnStreamEnd(session);
}

}  // namespace distlock::core
