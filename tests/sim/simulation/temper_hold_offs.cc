// SPDX-License-Identifier: Apache-2.0
#include "simulation/temper_hold_offs.h"

#include <algorithm>

#include "simulation/faults.h"

namespace distlock::sim {
namespace {

bool MayHappen(const Fault& fault, const Temper& temper) {
  if (fault.where == Where::kHoldOffs || fault.where == Where::kAnyHoldOff) return true;
  return fault.where == Where::kFailingCluster && temper.failing_nodes;
}

// Few clients want one or two locks all the time, and nothing else happens.
void MakeFew(Shows what, Dice& dice, Temper& temper) {
  const std::vector<Fault>& all = Faults();
  temper.faults.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].shows == what && MayHappen(all[i], temper)) temper.faults.push_back(static_cast<int>(i));
  }
  temper.brokers = 2;
  temper.clients = 3 + dice.Roll(4);
  temper.locks = 1 + dice.Roll(2);
  temper.mutexes = dice.Chance(0.8);
  temper.longest_pause = milliseconds(300);
  temper.one_try = temper.bounded_wait = temper.impatient = temper.careless = temper.elsewhere = 0;
  temper.max_hold = temper.min_hold = temper.lock_delay = temper.downgrade = temper.reentrant = temper.together =
      temper.moves = 0;
  temper.slow = 0;
  temper.notice_lag = temper.force_every = Duration(0);
  temper.busy_time = 4 * temper.fault_every;
}

// Leases that nobody renews: what a server has forgotten of them, no renewal brings back. Clients want them from any
// broker, and hold them to the end.
void MakeUnrenewed(Shows what, Dice& dice, Temper& temper) {
  MakeFew(what, dice, temper);
  temper.workload = Workload::kDetached;
  temper.unrenewed = 1;
  temper.longest_hold = temper.ttls.front();
  temper.short_holds = 1;
}

// Operators change the longest ttl while longer leases are out.
void ShowSettings(Dice& dice, Temper& temper) {
  temper.name_moves = false;  // there servers lose nothing
  temper.ttls = {seconds(15)};
  temper.fault_every = seconds(15);
  MakeUnrenewed(Shows::kSettings, dice, temper);
}

// Promoted servers lack what was granted last, and restart with all that they have.
void ShowPromotions(Dice& dice, Temper& temper) {
  temper.ttls = {seconds(5)};
  temper.fault_every = seconds(20);
  temper.persistence = Persistence::kAlways;
  temper.disks_last = dice.Chance(0.7);
  temper.restarts = 0.8;
  if (dice.Chance(0.7)) temper.restarts_within = dice.Pick<Duration>({milliseconds(500), seconds(4)});
  temper.longest_news = dice.Pick<Duration>({milliseconds(50), seconds(2)});
  MakeUnrenewed(Shows::kPromotions, dice, temper);
}

// Old primaries go on for as long as their guard lets them.
void ShowOldPrimaries(Dice& dice, Temper& temper) {
  temper.ttls = {seconds(5)};
  temper.fault_every = seconds(15);
  temper.longest_news = dice.Pick<Duration>({milliseconds(50), milliseconds(50), seconds(2)});
  if (temper.topology == Topology::kSentinel) {
    temper.guard = dice.Chance(0.8) ? FailoverGuard::kMinReplicas : FailoverGuard::kConfirmed;
  } else if (temper.topology == Topology::kCluster) {
    temper.node_timeout = dice.Pick<Duration>({seconds(2), seconds(5), seconds(15)});
    temper.guard = dice.Chance(0.6) ? FailoverGuard::kNone : temper.guard;
    temper.fault_every = 3 * temper.node_timeout + seconds(15);
  }
  MakeUnrenewed(Shows::kOldPrimaries, dice, temper);
  // Grants in the last moments count.
  temper.clients = 6 + dice.Roll(4);
  temper.locks = 2 + dice.Roll(2);
}

// An old primary renews until it notices that its replicas have left, which is late: it counts their lag in whole
// seconds, and looks once a second. Holders keep their locks for long, each by one broker: the one that is cut off with
// the old primary renews theirs there to the last moment, and those of the other wait until the hold-off ends.
void ShowLags(Dice& dice, Temper& temper) {
  temper.guard = FailoverGuard::kMinReplicas;
  temper.ttls = {seconds(5)};
  temper.fault_every = seconds(20);
  temper.longest_news = milliseconds(50);
  temper.restarts = 0;
  // A node of a Cluster must not refuse before for having lost the others.
  temper.node_timeout = dice.Pick<Duration>({seconds(5), seconds(15)});
  MakeFew(Shows::kLags, dice, temper);
  temper.workload = dice.Pick<Workload>({Workload::kMutex, Workload::kHold, Workload::kMixed});
  temper.unrenewed = 0;
  temper.longest_hold = seconds(60);
  temper.short_holds = 1;
  // Each lock of the old primary is another chance that a renewal is among the last that it takes.
  temper.clients = 12 + dice.Roll(6);
  temper.locks = 6 + dice.Roll(3);
}

// Operators have replicas confirm, or not any more, and set the hold-off, or leave its length to the brokers.
void ShowGuards(Dice& dice, Temper& temper) {
  temper.guard = dice.Pick<FailoverGuard>({FailoverGuard::kNone, FailoverGuard::kConfirmed});
  if (temper.name_moves) temper.guard = FailoverGuard::kNone;  // the only one there
  temper.ttls = {seconds(15)};
  temper.fault_every = seconds(12);
  temper.longest_news = milliseconds(50);
  MakeUnrenewed(Shows::kGuards, dice, temper);
  temper.busy_time = seconds(120);
}

// Data that are deleted in a living server. Brokers tend their queues often, and what they have written then may come
// when the deletion is known.
void ShowDeletions(Dice& dice, Temper& temper) {
  temper.ttls = {seconds(15)};
  temper.fault_every = seconds(20);
  temper.queue_slot = seconds(6);
  temper.late_bytes = dice.Pick<double>({0, 1, 1});
  temper.longest_late = seconds(20);
  MakeUnrenewed(Shows::kDeletions, dice, temper);
}

// A server misses votes, and its data come to another one, whose disk keeps all that it is told.
void ShowCopies(Dice& dice, Temper& temper) {
  temper.nodes = 3;
  temper.ttls = {seconds(15)};
  temper.fault_every = seconds(15);
  temper.persistence = Persistence::kAlways;
  MakeUnrenewed(Shows::kCopies, dice, temper);
  temper.locks = 4;
}

// Brokers that start on a server without a trace of those before, which has lived for long, or has just begun.
void ShowFirstStarts(Dice& dice, Temper& temper) {
  temper.ttls = {seconds(5)};
  temper.fault_every = seconds(20);
  temper.late_bytes = 0;
  MakeUnrenewed(Shows::kFirstStarts, dice, temper);
}

// Servers that append each second now, and always once they have restarted. Locks are often granted, so that some grant
// is among what a restart loses.
void ShowAppends(Dice& dice, Temper& temper) {
  temper.nodes = 3;
  temper.ttls = {seconds(5)};
  temper.fault_every = seconds(15);
  temper.persistence = Persistence::kAlways;
  MakeUnrenewed(Shows::kAppends, dice, temper);
  temper.clients = 6 + dice.Roll(4);
  temper.locks = 4;
}

// The dice are its own, so that other simulations stay as they are.
void DrawOperators(uint64_t seed, Temper& temper) {
  Dice dice(seed ^ 0x6f70657261746f72);
  if (!dice.Chance(0.2)) return;
  if (dice.Chance(0.4)) return ShowDeletions(dice, temper);
  if (temper.topology == Topology::kQuorum) return ShowCopies(dice, temper);
  ShowGuards(dice, temper);
}

}  // namespace

void DrawHoldOffs(uint64_t seed, Temper& temper) {
  if (temper.calm || !temper.hold_off || temper.minority) return;
  const bool fails = temper.topology == Topology::kSentinel || temper.failing_nodes;
  Dice lags(seed ^ 0x6c616773);
  if (fails && lags.Chance(0.05)) return ShowLags(lags, temper);
  const bool is_one =
      temper.topology == Topology::kSentinel || (temper.topology == Topology::kSingle && !temper.name_moves);
  Dice firsts(seed ^ 0x666972737473);
  if (is_one && firsts.Chance(0.05)) return ShowFirstStarts(firsts, temper);
  const bool may_lose = temper.topology == Topology::kQuorum || (temper.topology == Topology::kSingle && is_one);
  Dice appends(seed ^ 0x617070656e6473);
  if (may_lose && appends.Chance(0.05)) return ShowAppends(appends, temper);
  Dice dice(seed ^ 0x686f6c646f6666);
  if (!dice.Chance(0.15)) return DrawOperators(seed, temper);
  switch (fails ? dice.Roll(3) : 0) {
    case 0:
      return ShowSettings(dice, temper);
    case 1:
      return ShowPromotions(dice, temper);
    default:
      return ShowOldPrimaries(dice, temper);
  }
}

}  // namespace distlock::sim
