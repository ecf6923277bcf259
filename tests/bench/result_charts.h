// SPDX-License-Identifier: Apache-2.0
//
// Which results are drawn in which chart: throughput.svg and handoff.svg, each of the sections that were run. A case
// without values has its reason in the place of a bar. Main thread.
#pragma once

#include <string>

#include "bench/report.h"

namespace distlock::bench {

// Makes the folder when there is none. Throws std::runtime_error when it cannot write.
void WriteCharts(const Results& results, const std::string& folder);

}  // namespace distlock::bench
