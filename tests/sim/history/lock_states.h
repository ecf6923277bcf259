// SPDX-License-Identifier: Apache-2.0
//
// The store's state of each lock, from moment to moment, by its own records. Only where the store is observed.
#pragma once

#include <cstdint>
#include <vector>

#include "history/index.h"

namespace distlock::sim {

struct LockState {
  int64_t from = kNotSeen;
  int64_t until = kForEver;
  std::vector<Look::Holder> holders;  // by token
  uint64_t newest = 0;                // the token of the last grant
  bool newest_is_known = true;        // false: the store forgot something, and nothing has been granted since
};

class LockStates {
 public:
  explicit LockStates(const Index& index);

  // The first state of the lock that lasted until `at` or longer; all that follow are after it.
  const LockState* From(int32_t lock, int64_t at) const;
  const LockState* End(int32_t lock) const {
    const std::vector<LockState>& states = of_[static_cast<size_t>(lock)];
    return states.data() + states.size();
  }

 private:
  void Read(const Record& record);
  LockState& Next(size_t lock, const Record& record);
  void Took(const Record& record, LockState& state);

  const Index& index_;
  std::vector<std::vector<LockState>> of_;  // by lock
  std::vector<int64_t> calls_;              // by lock: the call that made its last state
};

}  // namespace distlock::sim
