// SPDX-License-Identifier: Apache-2.0
//
// One page of the locks of a namespace: SCAN for the holder keys, then one inspect per name found, pipelined.
//
// A lock that is held while all pages are read is on at least one of them. A lock that is granted or released meanwhile
// may be on one, and the server may show a lock twice. A page may be short, even empty, without being the last; the
// last has an empty token. The token carries the server's cursor and the names that were found with it but had no room.
// Thread: the loop's. A listing ends by itself when its query has been answered meanwhile.
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

// The state of a listing between two pages.
struct PageToken {
  std::string cursor = "0";
  bool scanned_all = false;
  std::deque<core::LockName> names;

  std::string Encode() const;
  // Callers make tokens of their own: names that do not begin with `within` are dropped. It is in escaped form; "" is
  // all.
  static absl::StatusOr<PageToken> Decode(std::string_view text, std::string_view within);
};

class LockListing : public std::enable_shared_from_this<LockListing> {
 public:
  // All outlive the listing.
  struct Means {
    const Codec& codec;
    Link& link;
    ScriptCaller& scripts;
    PendingQueries& queries;
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
