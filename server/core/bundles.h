// SPDX-License-Identifier: Apache-2.0
//
// Several locks, all or nothing. The locks that are taken first are renewed until the last one is granted; no caller is
// told before. All brokers take locks in one order, which rules out circles of waiters (Havender 1968).
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/btree_map.h"
#include "core/claims.h"
#include "core/core_context.h"
#include "core/leases.h"
#include "core/pending_releases.h"
#include "core/records.h"
#include "core/sessions.h"

namespace distlock::core {

class Callers;
class Waiters;
class Wants;

class Bundles final : public PartOf<Bundle>, public BundleLosses {
 public:
  Bundles(CoreContext& core, Claims& claims, PendingReleases& releases, Sessions& sessions, Wants& wants,
          Leases& leases, Waiters& waiters, Callers& callers)
      : core_(core),
        claims_(claims),
        releases_(releases),
        sessions_(sessions),
        wants_(wants),
        leases_(leases),
        waiters_(waiters),
        callers_(callers) {}

  void Handle(AcquireAll& in);
  void OnTimer(Bundle& bundle) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // The part that is waited for has been granted to `waiter`.
  void GrantPart(Waiter& waiter, const GrantNews& news);
  // Refuses the whole bundle.
  void OnLeaseLost(Lease& lease, const std::string& cause) override;
  // Renews all leases that wait for the rest of their bundles.
  void RenewTaken();

  // Refuses all callers; what was taken goes back.
  void Refuse(Bundle& bundle, const Refused& refused);
  void RefuseEvery(const Refused& refused);
  // One caller waits no longer. `refused`: what it is told; null: it has gone.
  void DropCaller(Bundle& bundle, SessionId session, const Refused* refused);
  void OnStreamEnd(SessionId session) override;
  // Ends all bundles of a stream. `refused`: what it is told; null: it has gone. `keep`: its client did not give them
  // up, so what the tries of a request have is kept for the next ones. See Waiters::KeepForRetry.
  void EndAllOf(Session& session, bool keep, const Refused* refused = nullptr);

  size_t Check() const override;

 private:
  std::optional<Refused> WhyNot(const Bundle& bundle, const Session* session) const;
  bool JoinRepeat(const Bundle& repeat);
  bool IsInUse(const Bundle& bundle) const;
  void TryAll(Bundle& bundle);
  void OnLateReply(const Op& op);
  void AskForNext(Bundle& bundle);
  void Arm(Bundle& bundle);
  bool TakePart(Bundle& bundle, size_t index, const GrantNews& news);
  Duration CountFromTheLast(Bundle& bundle) const;
  void TakeAnew(Bundle& bundle);
  void GrantAll(Bundle& bundle);
  void RefuseIdInUse(Bundle& bundle);
  void TellCaller(const Bundle& bundle, const Caller& caller, const Refused& refused);
  // `keep`: for the next tries of its request.
  void End(Bundle& bundle, bool keep = false);

  CoreContext& core_;
  Claims& claims_;
  PendingReleases& releases_;
  Sessions& sessions_;
  Wants& wants_;
  Leases& leases_;
  Waiters& waiters_;
  Callers& callers_;
  absl::btree_map<uint64_t, std::unique_ptr<Bundle>> bundles_;  // by serial
  absl::btree_map<SessionId, Bundle*> detached_;                // calls that wait for several detached grants
};

}  // namespace distlock::core
