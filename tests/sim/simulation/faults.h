// SPDX-License-Identifier: Apache-2.0
//
// The faults of a simulation, one row each in faults.cc. A new fault is a row and a function there.
//
// The row's `where` says which dice draw it, and so where it must stand and which simulations become others:
// - kEverywhere, kSingle, kSentinel: before all other rows. temper.cc counts these rows, takes the first ones for them,
//   and rolls one die for each: nearly all simulations that have faults change, of every topology.
// - kCluster, kSteadyCluster, kFailingCluster, kQuorum: behind those. The simulations of that topology change.
// - The others, drawn from dice of their own: behind those, too. The simulations in which the fault may be drawn
//   change.
#pragma once

#include <vector>

#include "history/history.h"

namespace distlock::sim {

class Simulation;

// The simulations in which a fault may happen.
enum class Where : uint8_t {
  kEverywhere,
  kSingle,
  kSentinel,
  kCluster,
  kSteadyCluster,   // whose nodes have no replicas
  kFailingCluster,  // whose nodes have
  kQuorum,
  // Drawn apart from the others, by DrawNetwork in temper_network.cc.
  kPaths,    // everywhere
  kReturns,  // in a Cluster whose nodes have replicas
  // By DrawServers in temper_servers.cc.
  kHoldingOff,  // one server, of whose restarts brokers hold off
  kAnyHoldOff,  // of any store, of whose restarts brokers hold off
  kSlewing,     // whose clocks change their rates
  // By DrawHoldOffs in temper_hold_offs.cc, in simulations that are about nothing else.
  kHoldOffs,
};

// The length of a hold-off must allow for these.
enum class Shows : uint8_t {
  kNothing,
  kSettings,      // longer leases of before
  kPromotions,    // a restart, which makes a server forget that it was promoted
  kOldPrimaries,  // which go on granting
  kLags,          // of replicas, which an old primary notices late
  kGuards,        // what bounded the old primaries of before
  kDeletions,     // data that are deleted in a living server
  kCopies,        // a server of a quorum with the data of another
  kFirstStarts,   // brokers that find no trace of those before
  kAppends,       // of a server that keeps less than it will by its next settings
};

struct Fault {
  FaultKind kind;
  const char* name;
  bool forgets = false;          // the store may lose data that it should keep
  bool clock_goes_back = false;  // the store's
  bool mild = false;             // brokers and the store survive: no lock need wait for its ttl
  bool late = false;             // a command may run after its broker has repeated it
  bool splits = false;           // two primaries may be at work, each with some of the brokers
  bool harmless = false;         // to who is not misled by it: nothing is excused
  Where where = Where::kEverywhere;
  Shows shows = Shows::kNothing;  // in the simulations of DrawHoldOffs
  void (*cause)(Simulation& simulation) = nullptr;
};

const std::vector<Fault>& Faults();

}  // namespace distlock::sim
