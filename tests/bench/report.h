// SPDX-License-Identifier: Apache-2.0
//
// Results: the samples of every round, and their tables with medians and min..max over the rounds. A case with an error
// in any round is shown as invalid, a case that did not run as not run; neither is used in comparisons. Main thread.
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
