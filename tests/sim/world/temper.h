// SPDX-License-Identifier: Apache-2.0
//
// The character of one world, drawn from its seed: how many there are, what they like to do, and what goes wrong ("swarm
// testing", Groce et al. 2012: each world leaves most faults out, so that the others can show). Every other world is calm.
#pragma once

#include <string>
#include <vector>

#include "world/dice.h"

namespace distlock::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// What clients do. kMixed draws one of the others for each client.
enum class Workload : uint8_t { kMixed, kMutex, kQueue, kChurn, kDetached, kHold, kRw, kPermit };
const std::vector<std::pair<std::string, Workload>>& Workloads();

// How a lock is taken.
struct Way {
  core::Policy policy = core::Policy::kFair;
  double readers = 0;  // part of the wishes that are SHARED
  uint32_t limit = 0;  // above zero: PERMIT
};

struct Temper {
  bool calm = true;
  Workload workload = Workload::kMixed;
  int brokers = 1;
  int clients = 1;
  int locks = 1;
  std::vector<Way> ways;  // by lock
  int replicas = 0;
  bool counts_listeners = true;
  int drift_ppm = 0;          // every clock's is within this
  Duration shortest_delay{};  // of a message
  Duration usual_delay{};
  double slow = 0;  // part of messages that take up to slowest_delay
  Duration slowest_delay{};
  Duration notice_lag{};  // by which hand-off channels are behind the answers to commands
  Duration gather{};      // for so long at most brokers gather what goes to the store in one call; 0: not at all
  Duration validity{};
  Duration queue_slot{};
  Duration store_timeout{};  // after which a broker says that it could not confirm a release
  std::vector<Duration> ttls;
  Duration longest_hold{};
  Duration longest_pause{};  // between two wishes of a client
  double one_try = 0;
  double bounded_wait = 0;
  double impatient = 0;  // part of wishes that are cancelled
  double careless = 0;   // part of clients' ends that are no goodbye
  double max_hold = 0;
  double lock_delay = 0;
  double downgrade = 0;     // part of EXCLUSIVE leases that go on as SHARED
  double reentrant = 0;     // part of wishes that are asked for twice at once, by one owner
  double together = 0;      // part of wishes that are for several locks, all or nothing
  Duration force_every{};   // an administrator takes a lock from its holder; 0: never
  Duration busy_time{};     // how long clients go on wishing
  std::vector<int> faults;  // indices into Faults() that happen here
  bool mild = false;        // only mild faults, and nothing is slow
  Duration fault_every{};
};

Temper DrawTemper(uint64_t seed, Dice& dice, Workload wanted);

}  // namespace distlock::sim
