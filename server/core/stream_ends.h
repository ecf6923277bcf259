// SPDX-License-Identifier: Apache-2.0
//
// The end of a stream, and its meaning for all that the stream has: its leases, its waiters, its bundles, its calls.
//
// Thread: the shard's.
#pragma once

#include <vector>

#include "core/core_context.h"
#include "core/records.h"

namespace distlock::core {

class Bundles;
class Leases;
class Sessions;
class Waiters;

class StreamEnds final : public PartOf<Session> {
 public:
  // `parts`: those that hear of the end of each stream.
  StreamEnds(CoreContext& core, Sessions& sessions, Leases& leases, Waiters& waiters, Bundles& bundles,
             const std::vector<Part*>& parts)
      : core_(core), sessions_(sessions), leases_(leases), waiters_(waiters), bundles_(bundles), parts_(parts) {}

  void Handle(const Goodbye& in);
  void Handle(const StreamEnded& in);
  void Handle(const HolderDied& in);
  // No heartbeat has come in time; a Hold is promised again.
  void OnTimer(Session& session) override;
  size_t Check() const override;

  // Their clients did not give them up: see Waiters::KeepForRetry.
  void KeepWaitersForRetry(const Session& session, const Refused* refused);
  // Tells the stream that it ends. Its leases, waiters and bundles are gone already.
  void Close(Session& session, StreamEnd why);

 private:
  void EndLeases(const Session& session);
  static std::vector<Waiter*> WaitersOf(const Session& session);
  void TellParts(SessionId session);

  CoreContext& core_;
  Sessions& sessions_;
  Leases& leases_;
  Waiters& waiters_;
  Bundles& bundles_;
  const std::vector<Part*>& parts_;
};

}  // namespace distlock::core
