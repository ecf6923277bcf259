// SPDX-License-Identifier: Apache-2.0
//
// The commands of a session that have had no event yet. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "distlock/v1/lock_service.pb.h"

namespace distlock::internal {

class CommandsAhead {
 public:
  size_t count() const { return count_; }

  void Sent(const v1::SessionRequest& message) {
    for (const v1::SessionCommand& command : message.commands()) {
      if (!Counts(command)) continue;
      const int32_t ids =
          command.has_adopt() ? std::max(command.adopt().hold_count(), 1) : std::max(command.acquire().locks_size(), 1);
      for (int64_t id = command.id(); id < command.id() + ids; ++id) of_[id] = {.first = command.id(), .ids = ids};
      ++count_;
    }
  }

  // An event has come under this id.
  void Answered(int64_t id) {
    const auto found = of_.find(id);
    if (found == of_.end()) return;
    const Command command = found->second;
    for (int64_t one = command.first; one < command.first + command.ids; ++one) of_.erase(one);
    --count_;
  }

  void Clear() {
    of_.clear();
    count_ = 0;
  }

 private:
  struct Command {
    int64_t first;
    int32_t ids;
  };

  // Heartbeat, Goodbye and Cancel are not answered under their own ids. OpenSession is answered before the broker has
  // told its limit.
  static bool Counts(const v1::SessionCommand& command) {
    return !command.has_heartbeat() && !command.has_goodbye() && !command.has_cancel() && !command.has_open();
  }

  absl::flat_hash_map<int64_t, Command> of_;  // by each of its ids
  size_t count_ = 0;
};

}  // namespace distlock::internal
