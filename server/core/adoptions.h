// SPDX-License-Identifier: Apache-2.0
//
// Adopt calls: a session takes over a lease from another stream, perhaps of another broker. The store replaces the
// owner under the same token, so whatever the former broker renews or releases under the former owner finds nothing. A
// session may also adopt a lease of its own, to change what is shown of it.
//
// The former stream's client may go on believing in its last promise until the ttl that its broker last began has
// passed. That is no later than the ttl that the adoption begins: Lease::former_believes_until. A broken stream frees
// nothing before; a Release or Goodbye does, since then the client believes in nothing any more.
//
// An adoption whose caller is gone before it is answered is left to its ttl: the caller may ask again through another
// broker, and meanwhile still hold the former promise.
//
// Thread: the shard's.
#pragma once

#include <string>
#include <vector>

#include "core/claims.h"
#include "core/core_context.h"
#include "core/leases.h"
#include "core/pending_releases.h"
#include "core/retrying_calls.h"
#include "core/sessions.h"

namespace distlock::core {

struct AdoptCall : RetryingCall {
  explicit AdoptCall(Part& of) : RetryingCall(of) {}
  Adopt request;
  std::vector<RequestId> cancelled;  // the holds that its caller does not want any more
};

class Adoptions final : public RetryingCalls<AdoptCall> {
 public:
  Adoptions(CoreContext& core, Claims& claims, Sessions& sessions, Wants& wants, Leases& leases,
            PendingReleases& releases)
      : RetryingCalls(core),
        claims_(claims),
        sessions_(sessions),
        wants_(wants),
        leases_(leases),
        releases_(releases) {}

  void Handle(Adopt& in);
  // Gives up one hold. When all are given up, the lease is released as soon as it has been adopted. False: no such hold
  // is waited for.
  bool Cancel(SessionId session, RequestId request);
  void OnTimer(AdoptCall& call) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;

 private:
  void LeaveOpen(const AdoptCall& call);
  void OnEnd(const AdoptCall& call, bool is_answered) override;
  const char* Doubt() const override {
    return "; whether it was taken over is not known: repeat with the same request_id";
  }
  void RefuseAtOnce(const Adopt& in, RefusalReason reason, std::string cause);
  void Refuse(AdoptCall& call, RefusalReason reason, std::string cause) override;
  void Send(AdoptCall& call) override;
  void OnAdopted(AdoptCall& call, const AdoptDone& done, Instant sent);
  // `holds`: the requests that still want it, at least one.
  void Grant(const Adopt& in, const std::vector<RequestId>& holds, const AdoptDone& done, Instant sent,
             Instant former_believes_until);
  Instant ForgetFormer(const Adopt& in, Duration ttl);

  Claims& claims_;
  Sessions& sessions_;
  Wants& wants_;
  Leases& leases_;
  PendingReleases& releases_;
};

}  // namespace distlock::core
