// SPDX-License-Identifier: Apache-2.0
//
// The temper of one simulation: its sizes, the habits of its clients and its faults, drawn from its seed. Each
// simulation leaves most faults out, so that the others can have effects ("swarm testing", Groce et al. 2012). Every
// other simulation is calm.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulation/dice.h"

namespace distlock::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// The work of clients. kMixed draws one of the others for each client.
enum class Workload : uint8_t { kMixed, kMutex, kQueue, kChurn, kDetached, kHold, kRw, kPermit };
const std::vector<std::pair<std::string, Workload>>& Workloads();

// The store of the locks.
enum class Topology : uint8_t { kSingle, kSentinel, kCluster, kQuorum };
const std::vector<std::pair<std::string, Topology>>& Topologies();

// Guards of a failover: as Census::Guard, of which these are the kinds.
enum class FailoverGuard : uint8_t { kNone, kMinReplicas, kConfirmed };

// How the servers of a simulation keep their data through a restart, by their settings. kUnlessItRewrites: kAlways, but
// not while a rewrite or a snapshot is under way, as it may be at any time.
enum class Persistence : uint8_t { kNone, kEverySecond, kAlways, kUnlessItRewrites };

// The data of a server when it starts again. Whatever its settings are, it may be another machine, or one with another
// disk: empty, or with a copy that is at least kOldCopy old.
enum class Memory : uint8_t { kAll, kNotItsLastSecond, kOldCopy, kNothing };
inline constexpr Duration kOldCopy = seconds(5);

// A simulation must be like this; the rest is drawn.
struct SimulationWishes {
  Workload workload = Workload::kMixed;
  std::optional<Topology> topology;
  bool hold_off = true;  // false: brokers do not hold off, so that a failover shows violations
};

// The modes and the policy of a lock.
struct Way {
  core::Policy policy = core::Policy::kFair;
  double readers = 0;  // fraction of wishes that are SHARED
  uint32_t limit = 0;  // not 0: PERMIT
};

struct Temper {
  bool calm = true;
  Workload workload = Workload::kMixed;
  Topology topology = Topology::kSingle;
  FailoverGuard guard = FailoverGuard::kNone;  // of a simulation with failovers
  bool hold_off = false;
  Persistence persistence = Persistence::kNone;
  bool disks_last = false;     // servers come back with all that their settings promise
  double restarts = 0.3;       // promoted servers that restart while they are held off
  Duration restarts_within{};  // that long after their promotion; 0: at any time of the hold-off
  bool name_moves = false;     // of a Single simulation: a failover leads the store's name to a replica
  Duration longest_news =
      seconds(2);      // of a Sentinel simulation: from a promotion until the last sentinel and replica know
  bool slews = false;  // clocks change their rates, within drift_ppm
  // In a Cluster simulation.
  bool skewed_nodes = false;    // their clocks are up to 200 ms off
  bool failing_nodes = false;   // they have replicas, which take over
  bool nameless_nodes = false;  // each knows its own host by no name: who asks has reached it
  bool full_coverage = false;   // while a primary is away, all refuse
  // After this time without most of the other primaries a node is held for failed, and refuses commands itself.
  Duration node_timeout = seconds(2);
  int nodes = 3;  // of a Quorum simulation
  // In a Quorum simulation: nothing is wrong but with a minority of the servers, so no lock may be lost, and no request
  // refused for the store's sake.
  bool minority = false;
  int brokers = 1;
  int clients = 1;
  int locks = 1;
  std::vector<Way> ways;  // by lock
  double readers = 0;     // not 0: this fraction of wishes is SHARED, of each lock
  bool mutexes = false;   // none of them has another mode or policy than EXCLUSIVE and FAIR, unless the workload has
  int replicas = 0;
  bool counts_listeners = true;
  int drift_ppm = 0;          // the largest drift of a clock
  Duration shortest_delay{};  // of a message
  Duration usual_delay{};
  double slow = 0;  // fraction of messages that take up to slowest_delay
  Duration slowest_delay{};
  double late_bytes = 0;  // fraction of ended connections whose last bytes arrive up to longest_late later
  Duration longest_late{};
  Duration notice_lag{};  // how much later hand-off messages arrive than replies to commands
  double strays = 0;      // lease ids of sessions that come again, through any broker, after their release
  // Session clients' questions about a lease by its lease_id, through any broker, instead of on the stream that has it.
  double elsewhere = 0;
  Duration gather{};  // for how long brokers gather commands for one call; 0: they do not
  Duration validity{};
  Duration queue_slot{};
  Duration store_timeout{};  // after it a broker answers that it could not confirm a release
  std::vector<Duration> ttls;
  Duration longest_hold{};
  double unrenewed = 0;      // fraction of a detached client's leases that it asks for once, and does not renew
  double short_holds = 0.9;  // fraction of holds that are no longer than that
  Duration longest_pause{};  // between two wishes of a client
  double one_try = 0;
  double bounded_wait = 0;
  double impatient = 0;  // fraction of wishes that are cancelled
  double careless = 0;   // fraction of clients that end without a goodbye
  double proofs = 0;     // fraction of clients whose death brokers learn of for certain, besides the end of streams
  double max_hold = 0;
  double moves = 0;  // leases of a session that another session adopts when theirs breaks or drains
  double lock_delay = 0;
  double min_hold = 0;       // fraction of EXCLUSIVE wishes whose clean release blocks the lock for a while
  double downgrade = 0;      // fraction of EXCLUSIVE leases that are downgraded
  double reentrant = 0;      // fraction of wishes that are acquired twice by one owner
  double together = 0;       // fraction of wishes for several locks, all or nothing
  Duration force_every{};    // interval of forced releases; 0: none
  int lookers = 0;           // programs that ask what is held, each in turn
  Duration look_every{};     // their usual pause
  Duration busy_time{};      // how long clients make new wishes
  std::vector<int> faults;   // indices into Faults() that happen here
  bool late_timers = false;  // a process that stood still may do all that came meanwhile before its timers
  Duration longest_pause_of_brokers{};
  bool mild = false;     // only mild faults, and nothing is slow
  bool forgets = false;  // the store may lose what it was told
  Duration fault_every{};
};

Temper DrawTemper(uint64_t seed, Dice& dice, const SimulationWishes& wishes);

}  // namespace distlock::sim
