// SPDX-License-Identifier: Apache-2.0
//
// Results: what every round gave, and their tables. Medians and min..max over the rounds; a case with an error in any
// round is shown as invalid, one that did not run as such, and neither takes part in anything. Main thread.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "bench/load.h"
#include "bench/rows.h"

namespace distlock::bench {

// All rounds of one section: samples[round] by case name.
struct SectionResult {
  Section section;
  std::vector<std::map<std::string, Sample>> rounds;
};

using Conditions = std::vector<std::pair<std::string, std::string>>;

struct Results {
  Conditions conditions;
  std::vector<SectionResult> sections;

  bool AllValid() const;
};

void WriteMarkdown(const Results& results, std::ostream& out);
void WriteJson(const Results& results, std::ostream& out);

}  // namespace distlock::bench
