// SPDX-License-Identifier: Apache-2.0
#include "simulation/temper_network.h"

#include <algorithm>

namespace distlock::sim {
namespace {

// A primary that goes and comes back while a broker stands still, and nothing else. Few clients want few locks, so that
// a lock is free when it goes, is granted where nobody sees it, and is wanted from that broker.
void MakeReturning(Dice& dice, Temper& temper) {
  AllowOnly([](const Fault& fault) { return fault.where == Where::kReturns; }, temper);
  temper.fault_every = milliseconds(500);
  temper.busy_time = dice.Between(seconds(30), seconds(90));
  if (temper.guard == FailoverGuard::kConfirmed && dice.Chance(0.8)) temper.guard = FailoverGuard::kNone;
  temper.workload = dice.Pick<Workload>({Workload::kDetached, Workload::kMutex, temper.workload});
  temper.brokers = 2;
  temper.clients = 2 + dice.Roll(4);
  temper.locks = 1 + dice.Roll(2);
  temper.ttls = {seconds(5)};
  temper.longest_hold = seconds(4);
  temper.longest_pause = dice.Pick<Duration>({seconds(1), seconds(3)});
  temper.slow = temper.impatient = temper.reentrant = 0;
}

// Paths that fail over, and nothing else. Few clients want one lock, mostly without waiting: it is free when a path
// fails, a try is repeated until it is granted, and held for long enough to meet what was sent before.
void MakeStalling(Dice& dice, Temper& temper) {
  AllowOnly([](const Fault& fault) { return fault.where == Where::kPaths; }, temper);
  temper.fault_every = dice.Pick<Duration>({seconds(2), seconds(4)});
  temper.busy_time = dice.Between(seconds(10), seconds(40));
  temper.late_bytes = dice.Pick<double>({0, 1});
  temper.longest_late = seconds(1);
  temper.workload = dice.Pick<Workload>({Workload::kDetached, Workload::kMutex, temper.workload});
  temper.one_try = 0.9;
  temper.brokers = 1 + dice.Roll(2);
  temper.clients = 2 + dice.Roll(3);
  temper.locks = 1;
  temper.ttls = {dice.Chance(0.5) ? seconds(5) : seconds(15)};
  temper.longest_hold = dice.Pick<Duration>({seconds(4), seconds(8)});
  temper.short_holds = 1;
  temper.longest_pause = dice.Pick<Duration>({milliseconds(300), seconds(3)});
  temper.slow = temper.impatient = temper.reentrant = temper.careless = 0;
}

}  // namespace

void DrawNetwork(uint64_t seed, Temper& temper) {
  const std::vector<Fault>& all = Faults();
  if (temper.faults.empty() || temper.mild || temper.minority) return;
  // A simulation of one kind of fault is about that.
  const FaultKind kind = all[static_cast<size_t>(temper.faults.front())].kind;
  const auto is_of_it = [&](int fault) { return all[static_cast<size_t>(fault)].kind == kind; };
  if (std::ranges::all_of(temper.faults, is_of_it)) return;
  Dice dice(seed ^ 0x6e6574776f726b);
  temper.late_timers = dice.Chance(0.5);
  if (dice.Chance(0.4)) {
    temper.late_bytes = dice.Pick<double>({0.3, 1});
    temper.longest_late = dice.Pick<Duration>({milliseconds(500), seconds(3), seconds(20)});
  }
  if (dice.Chance(0.3)) temper.longest_pause_of_brokers = seconds(60);
  for (size_t i = 0; i < all.size(); ++i) {
    const bool may = all[i].where == Where::kPaths || (all[i].where == Where::kReturns && temper.failing_nodes);
    if (!may || !dice.Chance(0.4)) continue;
    temper.faults.insert(temper.faults.end(), 1 + dice.Pick<size_t>({0, 1, 2}), static_cast<int>(i));
  }
  if (temper.failing_nodes && dice.Chance(0.3)) return MakeReturning(dice, temper);
  if (dice.Chance(temper.topology == Topology::kQuorum ? 0.25 : 0.1)) MakeStalling(dice, temper);
}

void AllowOnly(bool (*these)(const Fault&), Temper& temper) {
  const std::vector<Fault>& all = Faults();
  temper.faults.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    if (these(all[i])) temper.faults.push_back(static_cast<int>(i));
  }
}

}  // namespace distlock::sim
