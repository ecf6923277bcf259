// SPDX-License-Identifier: Apache-2.0
// Rows of the broker's other costs: memory, renewals, start and stop.
#include "bench/floors.h"
#include "bench/lifetime.h"
#include "bench/memory.h"
#include "bench/renewals.h"
#include "bench/rows.h"

namespace distlock::bench {

std::vector<Section> UpkeepSections(const Setup& setup) {
  std::vector<Case> lifetime{
      {"start until it answers", StartTime},
      {"SIGTERM until ended, holders leave", [](Lab& lab) { return DrainTime(lab, Holders::kLeave); }}};
  if (!setup.size.smoke) {
    lifetime.push_back({"SIGTERM until ended, holders stay", [](Lab& lab) { return DrainTime(lab, Holders::kStay); }});
  }
  return {
      {"memory",
       "Memory of leases held by 20 sessions, and of idle sessions with a connection each",
       {"daemon B/lease", "redis B/lease", "free µs/lease", "daemon B/session", "sessions/GiB"},
       {{"held leases", LeaseMemory}, {"idle sessions", SessionMemory}},
       {},
       "Goal: 530 B of the daemon per lease, ambitious 268; 24 k sessions/GiB, ambitious 28 k.",
       2},
      {"renewals",
       "Renewing the leases of 20 sessions",
       {"daemon CPU %", "redis CPU %", "EVALSHA/s", "call ms", "longest ms"},
       {{"held leases", Renewals}, {"as many keys, by the least script", LeastRenewals}},
       {},
       "The least script only reads the keys, compares the owner and sets the time to live, in the broker's rhythm. "
       "CPU is the part of a core that renewing 100 000 leases every 10 s takes, beyond what the idle sessions "
       "take; with --quick it is scaled from fewer. A call is one of Redis, by its slow log: the median and the "
       "longest, which has whatever else the cores "
       "did meanwhile; 0.02 when all were shorter. "
       "Goal: Redis 2.5 %, daemon 1 %, longest 0.5 ms; ambitious 1.2, 0.3 and 0.15.",
       1,
       {{"held leases", "as many keys, by the least script", "redis CPU %", ""}}},
      {"daemon",
       "Beginning and ending",
       {"ms"},
       lifetime,
       {},
       "10 000 leases are held, fewer in the smoke test, and none may be left. Of holders that stay, with a drain "
       "timeout of 0, leases are freed when their belief has ended: up to 3 s.",
       1}};
}

}  // namespace distlock::bench
