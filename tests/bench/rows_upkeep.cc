// SPDX-License-Identifier: Apache-2.0
// Rows of what the broker costs beside its answers: memory, renewals, beginning and ending.
#include "bench/lifetime.h"
#include "bench/memory.h"
#include "bench/renewals.h"
#include "bench/rows.h"

namespace distlock::bench {

std::vector<Section> UpkeepSections(const Setup&) {
  return {{"memory",
           "Memory of leases held by 20 sessions, and of idle sessions with a connection each",
           {"daemon B/lease", "redis B/lease", "free µs/lease", "daemon B/session", "sessions/GiB"},
           {{"held leases", LeaseMemory}, {"idle sessions", SessionMemory}},
           {},
           "Goal: 530 B of the daemon per lease, ambitious 268; 24 k sessions/GiB, ambitious 28 k.",
           2},
          {"renewals",
           "Renewing the leases of 20 sessions",
           {"daemon CPU %", "redis CPU %", "EVALSHA/s", "longest ms"},
           {{"held leases", Renewals}},
           {},
           "CPU is the part of a core that renewing each lease every 10 s takes, beyond what the idle sessions take; "
           "longest is one call at Redis, 0.02 when all were shorter. Goal for 100 000 leases: Redis 2.5 %, daemon 1 %, "
           "longest 0.5 ms; ambitious 1.2, 0.3 and 0.15.",
           1},
          {"daemon",
           "Beginning and ending",
           {"ms"},
           {{"start until it answers", StartTime},
            {"SIGTERM until ended, holders stay", [](Lab& lab) { return DrainTime(lab, Holders::kStay); }},
            {"SIGTERM until ended, holders leave", [](Lab& lab) { return DrainTime(lab, Holders::kLeave); }}},
           {},
           "10 000 leases are held, fewer in the smoke test, and none may be left. Holders that stay are not waited for.",
           2}};
}

}  // namespace distlock::bench
