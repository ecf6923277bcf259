// SPDX-License-Identifier: Apache-2.0
//
// Which results are drawn in which file: throughput.svg and handoff.svg as bars, where a case without values has its
// reason in the place of a bar; growth-*.svg as lines (growth_charts.h). Each is of the
// sections that were run. Main thread.
#pragma once

#include <ostream>
#include <string>

#include "bench/report.h"

namespace distlock::bench {

// Makes the folder when there is none. Writes to `problems` what could not be drawn of what was run. Throws
// std::runtime_error when it cannot write.
void WriteCharts(const Results& results, const std::string& folder, std::ostream& problems);

}  // namespace distlock::bench
