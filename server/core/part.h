// SPDX-License-Identifier: Apache-2.0
//
// A part of the broker core owns records. The core hands the part the deadlines of its records that are due, and the
// answers to its commands. A new part touches its own files, CMakeLists.txt, broker.h and this diagram. A part is given
// references to the parts that it calls, and to no others. The layers, from the top; calls go down, or to a neighbour:
//   StreamEnds BrokerDrain                       the end of a stream, and of the broker
//   Adoptions Downgrades ForceCalls RenewCalls   calls about leases
//   Bundles                                      several locks, all or nothing
//   Callers Grants                               requests and refusals; a lease for each grant that is heard of
//   Waiters Leases                               attempts and places in queues; renewals and ends of leases
//   Sessions PendingReleases Queues Renewals     promises; releases under way; this broker's queues; batches
//   Claims                                       the records of what the store may have, by owner
// Watches stands alone. Five calls go up:
//   Waiters -> Callers   a caller's time is up
//   Waiters -> Grants    an answer is a grant
//   Callers -> Bundles   a caller is one of a bundle's
//   Grants -> Bundles    a bundle's lock is granted
//   Leases -> Bundles    a bundle's lock is lost (by BundleLosses)
// Deadlines or answers of Sessions go to StreamEnds, of Queues to Grants, of Renewals to Leases, each known there as a
// Part. StreamEnds tells each part of the end of a stream, BrokerDrain asks each whether it is idle, and Broker tells
// Waiters of owners that PendingReleases has released.
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
  // A stream, or a call without one, is over: nobody is left to be answered. May be told twice.
  virtual void OnStreamEnd(SessionId /*session*/) {}
  // False: a record of this part keeps a broker that drains from ending.
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
