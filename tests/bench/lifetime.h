// SPDX-License-Identifier: Apache-2.0
//
// How long a broker takes to start and to stop. Main thread.
#pragma once

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// From the start of a fresh broker until GetStatus answers; the median of several. Column: ms.
Sample StartTime(Lab& lab);

// The reaction of holders to a drain.
enum class Holders {
  kStay,   // none; the broker's drain timeout is 0, and it frees their leases when their belief has ended
  kLeave,  // they say goodbye, as they should
};

// From SIGTERM until a fresh broker has ended, while 20 sessions hold 10 000 leases. No lease may be left. Column: ms.
Sample DrainTime(Lab& lab, Holders holders);

}  // namespace distlock::bench
