// SPDX-License-Identifier: Apache-2.0
//
// A part of the broker core: it owns records, whose deadlines and whose commands' answers come to it. Adding one
// touches its own files, broker.h and this picture: a part is given references to the parts that it calls, and to no
// others.
//   Broker -> all parts
//   BrokerDrain -> StreamEnds, what that calls, and each part as Part
//   StreamEnds -> Sessions Leases Callers Waiters Bundles Watches RenewCalls Downgrades Adoptions ForceCalls
//   Callers -> Sessions Queues Waiters Bundles Claims
//   Waiters -> Queues Grants Callers PendingReleases Claims
//   Grants -> Sessions Leases Queues Waiters Bundles PendingReleases Claims
//   Bundles -> Sessions Leases Waiters Callers PendingReleases Claims
//   Leases -> Sessions Renewals PendingReleases Claims, and Bundles by the hook kept_parts.h
//   ForceCalls -> Leases PendingReleases Claims
//   Downgrades -> Sessions Claims
//   Adoptions -> Sessions Leases PendingReleases Claims
//   RenewCalls -> Claims
//   PendingReleases -> Queues Claims
//   Sessions Renewals Queues Claims Watches -> no part but the one that gets their deadlines or answers
//
// Thread: the shard's.
#pragma once

#include <cstddef>

#include "core/check.h"
#include "core/op.h"
#include "core/store_messages.h"
#include "core/timers.h"

namespace distlock::core {

// A record of a part.
struct PartRecord : Timed {
  explicit PartRecord(Part& of) : part(of) {}
  Part& part;
};

// The defaults are those of a part without deadlines and commands.
class Part {
 public:
  // The deadline of a record of this part has come, and is kNever now.
  virtual void OnDue(PartRecord& /*due*/) { DISTLOCK_CHECK(false); }
  // The answer to the command `id` of this part, which was registered as `op`.
  virtual void OnReply(const Op& /*op*/, OpId /*id*/, StoreReply& /*reply*/) { DISTLOCK_CHECK(false); }
  // The store can be asked again: what waited for that is sent.
  virtual void OnStoreUp() {}
  // Whether nothing of it keeps a broker that drains from ending.
  virtual bool IsIdle() const { return true; }
  // Crashes if an invariant of its records is broken; between two Steps. Returns how many of them have a deadline.
  virtual size_t Check() const { return 0; }

 protected:
  ~Part() = default;
};

// A part with one kind of record.
template <typename Record>
class PartOf : public Part {
 public:
  virtual void OnTimer(Record& record) = 0;
  void OnDue(PartRecord& due) final { OnTimer(static_cast<Record&>(due)); }

 protected:
  ~PartOf() = default;
};

}  // namespace distlock::core
