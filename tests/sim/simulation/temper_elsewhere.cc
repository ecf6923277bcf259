// SPDX-License-Identifier: Apache-2.0
#include "simulation/temper_elsewhere.h"

#include <algorithm>

#include "simulation/faults.h"
#include "simulation/temper_network.h"

namespace distlock::sim {

// Not of the dice: other simulations stay as they are. Leases that outlive a failover are asked about by their
// lease_ids, through brokers that may be cut off with the old primary.
void DrawElsewhere(uint64_t seed, Temper& temper) {
  const uint64_t draw = Dice(seed ^ 0x656c7365).Next() >> 8;
  const bool fails = temper.topology == Topology::kSentinel || temper.failing_nodes;
  if (draw % (fails ? 2 : 6) != 0 || temper.minority) return;
  temper.elsewhere = draw / 12 % 2 == 0 ? 0.3 : 0.7;
  temper.brokers = std::max(temper.brokers, 2);
  if (temper.workload != Workload::kRw) temper.workload = Workload::kMutex;
  if (draw / 24 % 3 == 0) return;
  temper.clients = std::min(temper.clients, 5);
  temper.locks = std::min(temper.locks, 2);
  temper.longest_hold = draw / 72 % 2 == 0 ? seconds(4) : milliseconds(300);
  temper.longest_pause = milliseconds(300);
  temper.short_holds = 0.7;
  temper.max_hold = temper.min_hold = temper.lock_delay = temper.one_try = temper.impatient = 0;
  temper.moves = draw / 144 % 3 * 0.5;
  const bool splits = draw / 432 % 2 != 0 && !temper.calm;
  if (splits && fails) temper.guard = FailoverGuard::kNone;
  // Without a guard, an old primary that is cut off for longer than a lease has left lets it expire, though its holder
  // renews it at the new one.
  if (fails) temper.ttls = {temper.guard == FailoverGuard::kNone ? seconds(15) : seconds(5)};
  if (!splits) return;
  if (!fails) {
    // An adoption sticks in a connection, and its client asks another broker.
    AllowOnly([](const Fault& fault) { return fault.late; }, temper);
    temper.fault_every = milliseconds(300);
    temper.busy_time = seconds(30);
    temper.moves = 1;
    temper.downgrade = 0;
    temper.clients = 3;
    temper.locks = 2 * temper.clients;  // a session that waits for one does not move
    temper.longest_hold = seconds(4);
    return;
  }
  // The new primary does not know what one broker has done at the old one, and nothing bounds the old one.
  const Where here = temper.topology == Topology::kSentinel ? Where::kSentinel : Where::kFailingCluster;
  AllowOnly([](const Fault& fault) { return fault.splits; }, temper);
  std::erase_if(temper.faults, [&](int fault) { return Faults()[static_cast<size_t>(fault)].where != here; });
  // Before the next one the hold-off is over, and the lock is held.
  temper.fault_every = seconds(30);
  temper.busy_time = seconds(120);
  temper.longest_hold = seconds(8);
  temper.short_holds = 1;
  temper.elsewhere = 0.8;
  temper.brokers = 2;
  temper.clients = 3;
  temper.locks = 1;
}

}  // namespace distlock::sim
