// SPDX-License-Identifier: Apache-2.0
//
// How long a broker takes to begin and to end. Main thread.
#pragma once

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// From the execution of a fresh broker until GetStatus answers; the median of some. Column: ms.
Sample StartTime(Lab& lab);

// What holders do when their broker goes down.
enum class Holders {
  kStay,   // nothing; the broker has a drain timeout of 0 and frees their leases itself when their belief has ended
  kLeave,  // say goodbye, as they should
};

// From SIGTERM until a fresh broker has ended, while 20 sessions hold 10 000 leases; none may be left. Column: ms.
Sample DrainTime(Lab& lab, Holders holders);

}  // namespace distlock::bench
