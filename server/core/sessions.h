// SPDX-License-Identifier: Apache-2.0
//
// The streams that hold leases here, and what they are promised: a session for as long as its last heartbeat allows, a
// Hold by renewals of the promise that the broker sends by itself.
//
// Thread: the shard's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/core_context.h"
#include "core/records.h"

namespace distlock::core {

class Sessions {
 public:
  // `belongs_to`: the part that hears of the sessions' deadlines.
  Sessions(CoreContext& core, Part& belongs_to) : core_(core), belongs_to_(belongs_to) {}

  // `drain_deadline`: when the drain ends, if the broker drains.
  void Open(const OpenSession& in, Instant drain_deadline);
  void Handle(const Heartbeat& in);
  // Whether the session may have so many more leases and waiters. Empty: it may; else why not.
  std::string WhyFull(const Session& session, size_t more) const;
  // The answer to a request that gets the lease, but for the promise.
  Granted GrantedOf(const Lease& lease, Mode mode, StoreTime since = {}) const;
  // The request of the session has the lease from now on: lists it, promises how long it may be believed in, and tells.
  void Give(Session& session, RequestId request, Lease& lease, Granted granted);
  // ---- leases that are taken more than once: the store knows of one lease, and the broker counts the requests
  // One more request of the session has the lease.
  void Reacquire(Session& session, Lease& lease, RequestId request, Duration waited);
  // One request gives up what others still have. False: it is the last one.
  bool LeaveOne(Lease& lease, RequestId request);
  // Tells all requests that have the lease.
  template <typename T>
  void TellHolder(const Lease& lease, const T& event) {
    core_.Tell(lease.recipient, event);
    if (lease.reentry == nullptr) return;
    for (const RequestId other : lease.reentry->others) core_.Tell({lease.recipient.session, other}, event);
  }
  // Takes the lease from its session, under all requests that have it.
  void Unlist(Lease& lease);
  // Each lease of the session once.
  static std::vector<Lease*> LeasesOf(const Session& session);

  // The belief that its client may be told now, of a lease that it holds. It is a promise where the client has a Hold.
  struct Belief {
    Duration since_granted{};
    Duration valid_for{};
  };
  Belief PromiseNow(Lease& lease) const;
  // Promises again to a Hold stream, which sends no heartbeats.
  void PromiseOnHold(Session& session);
  // Tells the stream to end and forgets it. Its leases, waiters and bundles are gone already.
  void Close(Session& session, StreamEnd why);
  // The stream is over: forgets it without telling anybody.
  void Forget(Session& session);

  // Null: there is no such stream.
  Session* Find(SessionId session) const;
  // See Part::Check.
  size_t Check() const;
  const absl::btree_map<SessionId, std::unique_ptr<Session>>& all() const { return sessions_; }

 private:
  void Promise(Session& session, Lease& lease, Granted& granted);
  void CollectLimits(Session& session, HeartbeatAck& ack) const;

  CoreContext& core_;
  Part& belongs_to_;
  absl::btree_map<SessionId, std::unique_ptr<Session>> sessions_;
};

}  // namespace distlock::core
