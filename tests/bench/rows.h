// SPDX-License-Identifier: Apache-2.0
//
// The rows: the cases that are measured, and the ratios between them. Sections() is the only table of them. Values;
// main thread.
//
// A new row of distlock is a function that gives a Sample (for closed loops: a Load, given to Measure), named as a Case
// in one of rows_*.cc, and its comparisons. A library is a system in the driver of its language (peers/) and a line in
// Libraries() of library_peer.cc; a new language needs a program with the arguments and output of peers/peer.mjs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

struct Case {
  std::string name;
  std::function<Sample(Lab&)> run;
};

// Compares two cases of one section, in the same round.
struct Comparison {
  enum class Kind { kRatio, kDifference };
  std::string name;
  Kind kind = Kind::kRatio;
  std::string of;
  std::string against;
  std::string column;
  std::string must;  // goals, as text; "" = none
  std::string ambitious;
};

// The least that a case could take on this machine, measured by another case of its section in the same rounds: a bare
// relay, the least script, one command after the same pause. The report shows the share of it that the case reaches:
// 1 is the floor itself, whether more of the column is better (pairs/s) or less (µs, ms, %).
struct Floor {
  std::string of;     // a case
  std::string floor;  // another one
  std::string column;
  std::string floor_column;  // "": the same
};

struct Section {
  std::string id;  // one word; --only matches "id/case name"
  std::string title;
  std::vector<std::string> columns;
  std::vector<Case> cases;
  std::vector<Comparison> comparisons;
  std::string notes;  // goals of absolute values, what a column means
  int max_rounds = 1'000'000;
  std::vector<Floor> floors;  // at most one of a case
};

std::vector<Section> Sections(const Setup& setup);

// The parts of Sections(), in the order of the report.
std::vector<Section> UncontendedSections(const Setup& setup);
std::vector<Section> ContendedSections(const Setup& setup);
// Callers that prove who they are; empty when clients are not on TCP.
std::vector<Section> GuardedSections(const Setup& setup);
std::vector<Section> QuorumSections(const Setup& setup);
std::vector<Section> ClusterSections(const Setup& setup);
std::vector<Section> UpkeepSections(const Setup& setup);
std::vector<Section> GrowthSections(const Setup& setup);  // empty without Setup::growth

}  // namespace distlock::bench
