// SPDX-License-Identifier: Apache-2.0
//
// One page of the locks of a namespace: SCAN for the holder keys, then one inspect per name found, pipelined.
//
// A lock that is held throughout all pages is on at least one of them; one that comes or goes may be, and the server
// may show one twice. A page may be short, even empty, and still not be the last: only an empty token says that. The
// token carries the server's cursor and the names that were found with it but had no room. Thread: the loop's. Ends by
// itself when its question is taken by another.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "store/redis/codec.h"
#include "store/redis/link.h"
#include "store/redis/pending_queries.h"
#include "store/redis/script_caller.h"
#include "store/store.h"

namespace distlock::store {

// Where a listing stands between two pages.
struct PageToken {
  std::string cursor = "0";
  bool scanned_all = false;
  std::deque<core::LockName> names;

  std::string Encode() const;
  static absl::StatusOr<PageToken> Decode(std::string_view text);
};

class LockListing : public std::enable_shared_from_this<LockListing> {
 public:
  // What it works with; all outlive it.
  struct Means {
    const Codec& codec;
    Link& link;
    ScriptCaller& scripts;
    PendingQueries& questions;
  };
  using Done = std::function<void(absl::StatusOr<LockPage>)>;

  LockListing(Means means, PendingQueries::Id id, std::string pattern, uint32_t page_size, PageToken from, Done done);
  void Step();

 private:
  void Scan();
  void OnScanned(const Answer& answer);
  void InspectNext();
  void OnInspected(const core::LockName& name, const Answer& answer);
  void Finish(absl::StatusOr<LockPage> result);

  const Means means_;
  const PendingQueries::Id id_;
  const std::string pattern_;
  const size_t page_size_;
  const Done done_;

  PageToken at_;
  LockPage page_;
  absl::flat_hash_set<std::string> shown_;
  size_t inspecting_ = 0;
  int scans_ = 0;
  int64_t scan_count_;
};

}  // namespace distlock::store
