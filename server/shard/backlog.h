// SPDX-License-Identifier: Apache-2.0
//
// The items that wait in a shard that cannot keep up: those of each session in their order, one of each in turn.
// So a session that sends very much delays itself, and others by a round at most.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace distlock::shard {

template <typename T>
class Backlog {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  void Add(uint64_t session, T&& item) {
    std::deque<T>& waiting = by_session_[session];
    if (waiting.empty()) turns_.push_back(session);
    waiting.push_back(std::move(item));
    ++size_;
  }

  // Must not be empty.
  T Take() {
    const uint64_t session = turns_.front();
    const auto found = by_session_.find(session);
    T item = std::move(found->second.front());
    found->second.pop_front();
    --size_;
    turns_.pop_front();
    if (found->second.empty()) {
      by_session_.erase(found);
    } else {
      turns_.push_back(session);
    }
    return item;
  }

 private:
  absl::flat_hash_map<uint64_t, std::deque<T>> by_session_;  // none is empty
  std::deque<uint64_t> turns_;                               // the sessions of by_session_, each once
  size_t size_ = 0;
};

}  // namespace distlock::shard
