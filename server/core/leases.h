// SPDX-License-Identifier: Apache-2.0
//
// Leases of streams, which this broker renews: from the grant until the lease is released, lost, or left to its ttl. It
// includes leases that their session has taken more than once, and those kept while a bundle waits for the rest.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <tuple>

#include "absl/container/btree_map.h"
#include "core/claims.h"
#include "core/core_context.h"
#include "core/pending_releases.h"
#include "core/records.h"
#include "core/renewals.h"
#include "core/sessions.h"
#include "core/wants.h"

namespace distlock::core {

// The bundle for which a lease is held loses it.
class BundleLosses {
 public:
  // REQUIRES: lease.bundle is not null.
  virtual void OnLeaseLost(Lease& lease, const std::string& cause) = 0;

 protected:
  ~BundleLosses() = default;
};

class Leases final : public PartOf<Lease> {
 public:
  Leases(CoreContext& core, Claims& claims, Sessions& sessions, Wants& wants, BundleLosses& bundles,
         PendingReleases& releases)
      : core_(core),
        claims_(claims),
        sessions_(sessions),
        wants_(wants),
        bundles_(bundles),
        releases_(releases),
        renewals_(core, *this) {}

  // Begins to renew a lease whose ttl was started by a command sent at `sent`. REQUIRES: its owner has no lease here.
  // The caller lists it with its session, or holds it for a bundle, and must then Arm it.
  Lease& Begin(std::unique_ptr<Lease> lease, Instant sent);
  // The same of what was granted as `spec` says. An acquire whose answer is not known may take effect until
  // `may_run_until`.
  Lease& Begin(const Acquire& spec, const GrantNews& news, Instant may_run_until);
  void Arm(Lease& lease);
  void OnTimer(Lease& lease) override;

  // ---- renewal
  // Has the lease renewed at the end of this Step, or a little later.
  void RenewSoon(Lease& lease);
  // Has all leases renewed whose last renewal failed.
  void RenewAtRisk();
  // Sends what is due, or marks it at risk while the store is down. Called at the end of each Step.
  void SendRenewals();
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;

  // ---- ends. A client's release, the store's answers and deadlines end leases as well.
  void Handle(const core::Release& in);
  // Ends the lease here at once and has the store free it; `recipient` is told the outcome. Nobody gets it for `block`.
  void Release(Lease& lease, Recipient recipient, Duration block, bool keeps_min_hold = false);
  // Ends a lease that no caller was told of: renewed no more, and freed when `time` has passed. As Release.
  void ReleaseLater(Lease& lease, Duration time, Duration block = Duration::zero());
  // The stream broke: stops renewing now, and frees the lease when nobody can believe in it any more.
  void EndWithStream(Lease& lease);
  // Belief in what these requests of the stream had is over: frees what waits for that.
  // Returns how many.
  uint32_t FreeEndingOf(SessionId session, RequestId first = 0, RequestId last = std::numeric_limits<RequestId>::max());
  // Tells those who have the lease that it is lost, on record. The caller ends it.
  void TellLost(Lease& lease, LostReason reason, const std::string& cause);
  // An administrator takes it: its client is told now, and the lock is freed when its belief has ended.
  void Force(Lease& lease, const std::string& reason);
  // Another session has taken the lease over: its client is told, and the store nothing.
  void Move(Lease& lease);
  // Forgets the lease. The store is told nothing.
  void Forget(Lease& lease);

  size_t size() const { return claims_.leases(); }
  // The clients of all leases that are left adopt them when their streams end. Looks at each of them.
  bool AllAreResumed() const;
  size_t Check() const override;

 private:
  void NoteEnd(Lease& lease, FactKind kind, LostReason reason, const std::string& cause);
  PendingRelease& StartRelease(const Lease& lease, Duration block);
  void OnRenewed(Lease& lease, Instant sent);
  void MarkAtRisk(Lease& lease, const std::string& cause);
  void Lose(Lease& lease, LostReason reason, const std::string& cause);
  void EndByClient(Lease& lease, Recipient recipient, bool lapsed);
  void CheckHolder(const Lease& lease) const;
  void BeginEnding(Lease& lease);
  void FreeAt(Lease& lease, Instant at);

  CoreContext& core_;
  Claims& claims_;
  Sessions& sessions_;
  Wants& wants_;
  BundleLosses& bundles_;
  PendingReleases& releases_;
  Renewals renewals_;
  absl::btree_map<uint64_t, Lease*> at_risk_;  // by serial
  // Those with free_at, by who had them, and by serial: a session may use the id of a request again.
  absl::btree_map<std::tuple<SessionId, RequestId, uint64_t>, Lease*> ending_of_;
};

}  // namespace distlock::core
