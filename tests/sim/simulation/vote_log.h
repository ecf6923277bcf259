// SPDX-License-Identifier: Apache-2.0
//
// The votes that the servers of a quorum have ever given. A grant that a client was told of, and that fewer than q
// servers ever had, was counted from something else than votes.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "history/history.h"
#include "simulation/store_process.h"

namespace distlock::sim {

class VoteLog {
 public:
  // From now on. The servers live as long as the log.
  void Watch(StoreProcess& server);
  // Describes the first grant of the history that fewer than q servers ever had under its token. Empty: there is none.
  std::string FirstWithout(size_t quorum, const History& history) const;

 private:
  struct Server {
    std::set<std::string> changed;                        // keys, in the call that runs
    std::set<std::pair<std::string, uint64_t>> has_held;  // key and token
  };
  std::vector<std::unique_ptr<Server>> servers_;
};

}  // namespace distlock::sim
