// SPDX-License-Identifier: Apache-2.0
//
// Histories as text: one JSON object a line, in any order and any number of files, so that each process of a run can
// write its own file, and the file of a killed process is usable. Names instead of numbers. One thread.
//
//   {"run": {"calm": false, "validity": 1000000000, "longest_ttl": 3000000000, "slack": ..., ...}}
//   {"at": 17, "kind": "asked", "actor": "client 3", "lock": "k1", "lease": "3-17", "max_wait": -1, ...}
//   {"at": 18, "kind": "granted", "actor": "client 3", "lease": "3-17", "token": 1792}
//   {"at": 19, "kind": "fault", "fault": "link_reset", "actor": "net 1", "lasts": 0}
//   {"at": 20, "kind": "died", "actor": "client 3"}
//   {"look": "lock", "asked": 21, "told": 22, "actor": "broker 1", "lock": "k1", "newest_token": 1792, ...}
//
// `kind` is one of KindNames(), or `died`: a process was killed; its open leases end with it. Times and durations are
// ns. json_lines.cc says which fields a kind has.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "history/history.h"

namespace distlock::sim {

class HistoryReader {
 public:
  // Reads one file. False: problem() says which line is wrong and why. An incomplete last line is ignored, since its
  // writer was killed.
  bool Read(std::istream& in, const std::string& name);
  const std::string& problem() const { return problem_; }

  // has_run(): a file had the line "run". Take(): all records in the order of time; records of the same time keep the
  // order of their files and lines.
  bool has_run() const { return has_run_; }
  History Take();

 private:
  struct Died {
    int64_t at_ns;
    int32_t actor;
  };
  class Line;

  int32_t Number(std::map<std::string, int32_t, std::less<>>& numbers, std::vector<std::string>& names,
                 const std::string& name);
  int32_t ActorNumber(const std::string& name, Actor::Kind kind);
  int64_t LeaseNumber(const std::string& name);
  void ReadLine(const std::string& text);
  void ReadRun(const Line& line);
  void ReadRecord(const Line& line, RecordKind kind);
  void ReadTerms(const Line& line, int64_t lease);
  void ReadLook(const Line& line);
  void CloseLeasesOf(const Died& died, std::vector<Record>& closed) const;

  History history_;
  std::vector<Died> deaths_;
  std::map<std::string, int32_t, std::less<>> locks_;
  std::map<std::string, int32_t, std::less<>> actors_;
  std::map<std::string, int64_t, std::less<>> leases_;
  bool has_run_ = false;
  std::string problem_;
};

// Writes the whole history as HistoryReader reads it. Leases are named by their number.
void WriteHistory(const History& history, std::ostream& out);

}  // namespace distlock::sim
