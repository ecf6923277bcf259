// SPDX-License-Identifier: Apache-2.0
//
// Read-only questions that somebody waits for, each with its deadline: whoever takes a question first (the reply, the
// deadline, the end) answers it, so each is answered exactly once.
// Thread: the loop's.
#pragma once

#include <uv.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "core/types.h"
#include "store/redis/loop_timer.h"
#include "store/text.h"

namespace distlock::store {

class PendingQueries {
 public:
  using Id = uint64_t;
  using Fail = std::function<void(absl::Status)>;

  explicit PendingQueries(uv_loop_t* loop) : loop_(loop) {}

  Id Open(core::Duration timeout, Fail fail) {
    const Id id = ++last_id_;
    auto timer = std::make_unique<LoopTimer>(loop_, [this, id, timeout] {
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
    std::unique_ptr<LoopTimer> timer;
  };

  uv_loop_t* const loop_;
  Id last_id_ = 0;
  std::unordered_map<Id, Entry> open_;
};

}  // namespace distlock::store
