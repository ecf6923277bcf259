// SPDX-License-Identifier: Apache-2.0
//
// The only way from other threads into a shard: a queue with many posters and one reader.
//
// Two lanes share one queue, so that one poster's items stay in order across both. TryPost fails when `capacity` items
// of its lane wait; Post does not. Drain takes everything. `wake` runs at most once between two Drains, on the thread
// of the poster that made the queue non-empty.
//
// Thread: Post, TryPost and depth on any; Drain and Close on the reader's. `wake` runs under the mailbox's mutex, so it
// never runs after Close; it must be short and must not call the mailbox.
#pragma once

#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "shard/boot_clock.h"

namespace distlock::shard {

template <typename T>
class Mailbox {
 public:
  Mailbox(size_t capacity, std::function<void()> wake) : capacity_(capacity), wake_(std::move(wake)) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Returns false and leaves the item as it was when the lane is full or the mailbox closed.
  [[nodiscard]] bool TryPost(T&& item) {
    std::lock_guard lock(mu_);
    if (closed_ || bounded_ >= capacity_) return false;
    ++bounded_;
    items_.push_back(std::move(item));
    WakeOnce();
    return true;
  }

  // All or nothing. The items stay side by side in the queue.
  [[nodiscard]] bool TryPost(std::vector<T>&& items) {
    if (items.empty()) return true;
    std::lock_guard lock(mu_);
    if (closed_ || items.size() > capacity_ - bounded_) return false;
    bounded_ += items.size();
    items_.insert(items_.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
    WakeOnce();
    return true;
  }

  // Gives the item back when the mailbox is closed.
  std::optional<T> Post(T&& item) {
    std::lock_guard lock(mu_);
    if (closed_) return std::move(item);
    items_.push_back(std::move(item));
    WakeOnce();
    return std::nullopt;
  }

  // Moves all waiting items into `items`, which must be empty; its memory is reused for the next batch. Returns when
  // the first of them arrived, or kNever when there is none.
  core::Instant Drain(std::vector<T>& items) {
    std::lock_guard lock(mu_);
    items_.swap(items);
    bounded_ = 0;
    woken_ = false;
    return std::exchange(first_at_, core::kNever);
  }

  // Like Drain, and refuses everything that comes later.
  void Close(std::vector<T>& items) {
    std::lock_guard lock(mu_);
    closed_ = true;
    items_.swap(items);
    bounded_ = 0;
  }

  // Runs `wake` under the mailbox's mutex unless the mailbox is closed.
  template <typename Wake>
  void WakeIfOpen(Wake wake) {
    std::lock_guard lock(mu_);
    if (!closed_) wake();
  }

  size_t depth() const {
    std::lock_guard lock(mu_);
    return items_.size();
  }

 private:
  void WakeOnce() {
    if (std::exchange(woken_, true)) return;
    first_at_ = BootNow();
    wake_();
  }

  // Constant after construction.
  const size_t capacity_;
  const std::function<void()> wake_;

  // Guarded by mu_.
  mutable std::mutex mu_;
  std::vector<T> items_;
  size_t bounded_ = 0;  // how many of items_ came by TryPost; at most capacity_
  core::Instant first_at_ = core::kNever;
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace distlock::shard
