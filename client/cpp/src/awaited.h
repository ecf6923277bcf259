// SPDX-License-Identifier: Apache-2.0
//
// The answer that a blocked caller waits for: its callback only wakes the caller, so it may run where the program's own
// callbacks must not.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "distlock/callback.h"
#include "waiting.h"

namespace distlock::internal {

template <class T>
class Awaited {
 public:
  // `waiting`: what Core::waiting() says.
  explicit Awaited(std::shared_ptr<Waiting> waiting) : waiting_(std::move(waiting)) {
    if (waiting_ != nullptr) waiting_->Begin();
  }
  Awaited(const Awaited&) = delete;
  Awaited& operator=(const Awaited&) = delete;

  // Will be called once, by any thread, before Wait returns.
  Callback<void(T)> callback() { return Wake{this}; }
  T Wait() {
    if (waiting_ != nullptr) {
      waiting_->Await(done_);
    } else {
      done_.WaitForNotification();
    }
    return *std::move(value_);
  }
  static bool Has(const Callback<void(T)>& callback) { return callback.template Holds<Wake>(); }

 private:
  struct Wake {
    Awaited* to;
    void operator()(T value) const {
      to->value_.emplace(std::move(value));
      if (to->waiting_ != nullptr) to->waiting_->Answered();
      to->done_.Notify();
    }
  };

  const std::shared_ptr<Waiting> waiting_;
  std::optional<T> value_;
  Notification done_;
};

}  // namespace distlock::internal
