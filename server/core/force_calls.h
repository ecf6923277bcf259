// SPDX-License-Identifier: Apache-2.0
//
// Locks that an administrator takes from their holders. A lease of this broker ends like one whose stream broke: it is
// freed when its client has ceased to believe in it. For a lease of another broker, the store tells that broker. The
// call looks again and again until the holder is gone.
//
// Thread: the shard's.
#pragma once

#include "core/core_context.h"
#include "core/retrying_calls.h"

namespace distlock::core {

class Claims;
class Leases;
class PendingReleases;

struct ForceCall : RetryingCall {
  explicit ForceCall(Part& of) : RetryingCall(of) {}
  ForceRelease request;
  // A command or this broker may have ended the lease: if the holder is gone, it may be by this call.
  bool acted = false;
};

class ForceCalls final : public RetryingCalls<ForceCall> {
 public:
  ForceCalls(CoreContext& core, Claims& claims, Leases& leases, PendingReleases& releases)
      : RetryingCalls(core), claims_(claims), leases_(leases), releases_(releases) {}

  void Handle(ForceRelease& in);
  // Another broker's caller takes a lock from a holder that has it through this broker.
  void Handle(const ForceNotice& in);
  void OnTimer(ForceCall& call) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // Each call is looked at again by its own deadline, also while the store is down.
  void OnStoreUp() override {}

 private:
  void Send(ForceCall& call) override;
  Duration Pause(const ForceCall& call);

  Claims& claims_;
  Leases& leases_;
  PendingReleases& releases_;
};

}  // namespace distlock::core
