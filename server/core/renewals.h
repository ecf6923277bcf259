// SPDX-License-Identifier: Apache-2.0
//
// When leases are renewed, and how many together. Leases that are due stand in line; one store command renews up to
// kMaxRenewBatch of them. At most kMaxRenewalsSent commands leave at once; the next one leaves when one of them is
// answered, or after kRenewPace, so that other commands need not wait behind a great many renewals.
//
// Thread: the shard's. Ownership: none; a lease must be removed before it dies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "core/core_context.h"
#include "core/part.h"
#include "core/records.h"

namespace distlock::core {

class Renewals {
 public:
  // `leases`: the part that gets the answers.
  Renewals(CoreContext& core, Part& leases) : core_(core), leases_(leases) {}

  // Sets next_renew of a lease whose ttl was last started by a command sent at `sent`.
  void Schedule(Lease& lease, Instant sent);
  // Puts the lease at the end of the line, if it does not stand in it.
  void Enqueue(Lease& lease);
  // Takes the lease out of the line, if it stands in it.
  void Remove(const Lease& lease);
  // Takes the first of the line; null: nothing is due. Leases that are ending are skipped.
  Lease* PopDue();
  bool empty() const { return due_.empty(); }

  // Sends as much as may leave now, and arms the pace for the rest. REQUIRES: the store is up.
  void Send();
  // The command `id` has been answered. `trouble`: why it renewed nothing; empty: it has.
  void OnAnswered(OpId id, std::string trouble);
  void StopPacing() { core_.timers.Cancel(pace_.next); }

  // See Part::Check.
  size_t Check() const;

  // Why renewals fail at present, for those who lose a lease.
  std::string Trouble() const;

 private:
  struct Sent {
    OpId op = 0;
    Instant until;  // the next command waits for its answer no longer
  };
  // Each Step sends what may leave: it is enough that there is one.
  struct Pace final : Part {
    void OnDue(PartRecord&) override {}
    size_t Check() const override { return next.at != kNever; }
    PartRecord next{*this};
  };

  void SendOne();

  CoreContext& core_;
  Part& leases_;
  std::deque<Lease*> due_;  // null: one that was removed
  uint64_t due_from_ = 0;   // due_place of the first
  std::vector<Sent> sent_;  // in order, at most kMaxRenewalsSent
  std::string trouble_;     // of the last command that was answered; empty: none
  Pace pace_;               // when the next command may leave without an answer
};

}  // namespace distlock::core
