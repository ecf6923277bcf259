// SPDX-License-Identifier: Apache-2.0
//
// Read-only queries (Inspect, List) that a caller waits for, each with a deadline. The reply, the deadline and the
// store's end compete for a query: the first that takes it answers it, so each is answered exactly once. Thread: the
// loop's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "core/types.h"
#include "store/redis/transport.h"
#include "store/text.h"

namespace distlock::store {

class PendingQueries {
 public:
  using Id = uint64_t;
  using Fail = std::function<void(absl::Status)>;

  explicit PendingQueries(std::shared_ptr<Timers> timers) : timers_(std::move(timers)) {}

  Id Open(core::Duration timeout, Fail fail) {
    const Id id = ++last_id_;
    auto timer = timers_->Make([this, id, timeout] {
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
      Refuse(id, absl::DeadlineExceededError(Cat("the store did not answer within ", ms, " ms")));
    });
    timer->Start(timeout);
    open_.emplace(id, Entry{std::move(fail), std::move(timer)});
    return id;
  }

  bool IsOpen(Id id) const { return open_.contains(id); }

  // True: it was open, and the caller answers it now.
  bool Take(Id id) { return open_.erase(id) == 1; }

  void Refuse(Id id, absl::Status why) {
    auto node = open_.extract(id);
    if (!node.empty()) node.mapped().fail(std::move(why));
  }

  void RefuseAll(const absl::Status& why) {
    for (auto& [id, entry] : std::exchange(open_, {})) entry.fail(why);
  }

 private:
  struct Entry {
    Fail fail;
    std::unique_ptr<Timer> timer;
  };

  const std::shared_ptr<Timers> timers_;
  Id last_id_ = 0;
  std::unordered_map<Id, Entry> open_;
};

}  // namespace distlock::store
