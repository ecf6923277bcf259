// SPDX-License-Identifier: Apache-2.0
//
// Collects violations and describes each as a story: one sentence, then the records that matter in the order of time,
// with names instead of numbers. One thread; lives for one check.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "history/check.h"
#include "history/index.h"

namespace distlock::sim {

class Report {
 public:
  explicit Report(const Index& index) : index_(index) {}

  // Adds a violation about a lock and some of its leases; the story shows their records until `until`.
  void Add(const char* invariant, int32_t lock, std::initializer_list<int64_t> leases, int64_t until, std::string what);
  // Adds a violation whose story shows no records.
  void Add(const char* invariant, std::string what);
  // Whether one more violation of this invariant would be kept; otherwise the caller need not make its text.
  bool Wants(const char* invariant) const;

  // Words for stories.
  std::string Lease(int64_t lease) const;  // "client 3's lease 17"
  std::string Lock(int32_t lock) const;    // "\"k1\""
  static std::string At(int64_t at_ns);    // "12.345678 s"
  static std::string Span(int64_t ns);     // "1.250 ms"

  std::vector<Violation> Take();

 private:
  std::string Line(const Record& record) const;
  bool Matters(const Record& record, int32_t lock, const std::vector<int64_t>& leases, int64_t since) const;

  const Index& index_;
  std::vector<Violation> violations_;
  std::map<std::string, int> counts_;
};

}  // namespace distlock::sim
