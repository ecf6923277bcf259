// SPDX-License-Identifier: Apache-2.0
//
// The memory that a held lease and an idle session need. Main thread.
#pragma once

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// A fresh broker, 20 sessions, Size::leases leases in total, taken 64 at a time per session, with 20-byte keys and a
// ttl so long that no lease is renewed. Columns: daemon B/lease (growth of resident memory since the sessions were
// open), redis B/lease (growth of used_memory), free µs/lease (time from Goodbye of all until the broker has no lease).
Sample LeaseMemory(Lab& lab);

// A fresh broker, Size::sessions open sessions, each on a connection of its own, that hold nothing and send heartbeats.
// Columns: daemon B/session (growth of resident memory), sessions/GiB.
Sample SessionMemory(Lab& lab);

}  // namespace distlock::bench
