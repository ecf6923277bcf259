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
  bool acted =
      false;  // a command or this broker may have ended the lease: if the holder is gone, it may be by this call
};

class ForceCalls final : public PartOf<ForceCall> {
 public:
  // The parts that forced releases call.
  struct Neighbours {
    Leases& leases;
    PendingReleases& releases;
    Claims& claims;
  };
  ForceCalls(CoreContext& core, const Neighbours& to) : core_(core), to_(to), calls_(core, *this) {}

  void Handle(ForceRelease& in);
  // Another broker's caller takes a lock from a holder that has it through this broker.
  void Handle(const ForceNotice& in);
  void OnTimer(ForceCall& call) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // The stream or call that asked is over.
  void Drop(SessionId session) { calls_.Drop(session); }

  bool IsIdle() const override { return calls_.empty(); }
  size_t Check() const override { return calls_.Check(); }

 private:
  void Pursue(ForceCall& call);
  Duration Pause(const ForceCall& call);

  CoreContext& core_;
  const Neighbours to_;
  RetryingCalls<ForceCall> calls_;
};

}  // namespace distlock::core
