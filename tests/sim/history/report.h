// SPDX-License-Identifier: Apache-2.0
//
// Collects what the checkers find and tells each as a story: one sentence, then the records that matter in time order, with
// names instead of numbers. One thread; lives for one check.
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

  // What is wrong with a lock, and the leases it is about; the story shows them until `until`.
  void Add(const char* invariant, int32_t lock, std::initializer_list<int64_t> leases, int64_t until, std::string what);
  // Something that no records explain.
  void Add(const char* invariant, std::string what);
  // Whether one more of this invariant would be kept. Spares the making of sentences that nobody reads.
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
