// SPDX-License-Identifier: Apache-2.0
//
// The only way from other threads into a shard: queues with many posters and one reader.
//
// There are two: what is handled first, and the rest. Each keeps the order of one poster's items. TryPost and
// TryPostFirst fail when `capacity` items wait in their queue, which is until the reader has handled them; Post does
// not. Drain takes everything. `wake` runs at most once between two Drains, on the thread of the poster that made the
// mailbox non-empty.
//
// Thread: Post, TryPost, TryPostFirst and waiting on any; Drain, Handled and Close on the reader's. `wake` runs under
// the mailbox's mutex, so it never runs after Close; it must be short and must not call the mailbox.
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

  // Returns false and leaves the item as it was when the queue is full or the mailbox closed.
  [[nodiscard]] bool TryPost(T&& item) {
    std::lock_guard lock(mu_);
    if (closed_ || waiting_ >= capacity_) return false;
    Add(std::move(item));
    return true;
  }

  // All or nothing. The items stay side by side in the queue.
  [[nodiscard]] bool TryPost(std::vector<T>&& items) {
    if (items.empty()) return true;
    std::lock_guard lock(mu_);
    if (closed_ || waiting_ + items.size() > capacity_) return false;
    waiting_ += items.size();
    items_.insert(items_.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
    WakeOnce();
    return true;
  }

  // As TryPost, into the queue of what is handled first.
  [[nodiscard]] bool TryPostFirst(T&& item) {
    std::lock_guard lock(mu_);
    if (closed_ || first_.size() >= capacity_) return false;
    first_.push_back(std::move(item));
    WakeOnce();
    return true;
  }

  // Gives the item back when the mailbox is closed.
  std::optional<T> Post(T&& item) {
    std::lock_guard lock(mu_);
    if (closed_) return std::move(item);
    Add(std::move(item));
    return std::nullopt;
  }

  // Moves all items to the ends of `first`, what is handled first, and `items`. Memory of those that are empty is
  // reused for the next batch. Returns when the first item arrived, or kNever when there is none.
  core::Instant Drain(std::vector<T>& first, std::vector<T>& items) {
    std::lock_guard lock(mu_);
    Move(first_, first);
    Move(items_, items);
    woken_ = false;
    return std::exchange(first_at_, core::kNever);
  }

  // The reader has handled so many of `items`.
  void Handled(size_t items) {
    std::lock_guard lock(mu_);
    waiting_ -= items;
  }

  // Like Drain, and refuses everything that comes later.
  void Close(std::vector<T>& first, std::vector<T>& items) {
    std::lock_guard lock(mu_);
    closed_ = true;
    Move(first_, first);
    Move(items_, items);
  }

  // Runs `wake` under the mailbox's mutex unless the mailbox is closed.
  template <typename Wake>
  void WakeIfOpen(Wake wake) {
    std::lock_guard lock(mu_);
    if (!closed_) wake();
  }

  // How many are not handled yet; those that are handled first count until they are drained.
  size_t waiting() const {
    std::lock_guard lock(mu_);
    return waiting_ + first_.size();
  }

 private:
  void Add(T&& item) {
    ++waiting_;
    items_.push_back(std::move(item));
    WakeOnce();
  }

  static void Move(std::vector<T>& from, std::vector<T>& to) {
    if (to.empty()) return from.swap(to);
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
    from.clear();
  }

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
  std::vector<T> first_;
  std::vector<T> items_;
  size_t waiting_ = 0;  // items_, and what was drained of them and is not handled
  core::Instant first_at_ = core::kNever;
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace distlock::shard
