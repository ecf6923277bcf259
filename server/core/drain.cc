// SPDX-License-Identifier: Apache-2.0
#include "core/drain.h"

#include <algorithm>
#include <vector>

#include "core/bundles.h"
#include "core/callers.h"
#include "core/leases.h"
#include "core/sessions.h"
#include "core/watches.h"

namespace distlock::core {

void BrokerDrain::Handle(const Drain& in) {
  const Instant deadline = core_.now + in.timeout;
  if (core_.draining && deadline >= deadline_) return;
  core_.draining = true;
  deadline_ = deadline;
  if (!is_over_) core_.Arm(timer_, deadline);
  const Refused draining{.reason = RefusalReason::kDraining};
  for (const auto& [id, session] : sessions_.all()) {
    core_.Tell({id, 0}, Draining{in.timeout});
    bundles_.EndAllOf(*session, /*keep=*/true, &draining);
    streams_.KeepWaitersForRetry(*session, &draining);
  }
  bundles_.RefuseEvery(draining);
  watches_.EndAll();
  callers_.RefuseAllDetached(draining);
}

// The leases that are left are lost, and freed when belief in them has ended. Those that their clients resume are kept
// and renewed to the very end. A store that does not answer cannot delay the drain for longer than its timeout: the ttl
// frees what it could not confirm.
void BrokerDrain::OnDue(PartRecord&) {
  const Instant last = deadline_ + core_.config.validity + core_.config.store_timeout;
  if (core_.now >= last) return Finish();
  core_.Arm(timer_, last);
  timed_out_ = true;
  std::vector<SessionId> sessions;
  for (const auto& [id, session] : sessions_.all()) sessions.push_back(id);
  for (const SessionId id : sessions) {
    Session& session = *sessions_.Find(id);
    EndLeasesOf(session);
    streams_.KeepWaitersForRetry(session, nullptr);
    if (session.leases.empty()) streams_.Close(session, StreamEnd::kDrained);
  }
}

void BrokerDrain::EndLeasesOf(Session& session) {
  for (Lease* lease : Sessions::LeasesOf(session)) {
    if (lease->resume) continue;
    leases_.TellLost(*lease, LostReason::kDrained, "the broker shut down and its drain timeout passed");
    // Its client lives and believes until it hears of this.
    if (lease->on_disconnect == OnDisconnect::kRelease) lease->on_disconnect = OnDisconnect::kSafe;
    leases_.EndWithStream(*lease);
  }
}

void BrokerDrain::FinishWhenEmpty() {
  if (!core_.draining || is_over_) return;
  if (!std::ranges::all_of(parts_, [](const Part* part) { return part->IsIdle(); })) return;
  if (leases_.size() == 0 || (timed_out_ && leases_.AllAreResumed())) Finish();
}

void BrokerDrain::Finish() {
  is_over_ = true;
  core_.timers.Cancel(timer_);
  // Streams stay open until the server stops: the locks of a session may live on other shards, still draining.
  core_.Announce(DrainComplete{});
}

}  // namespace distlock::core
