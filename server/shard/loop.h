// SPDX-License-Identifier: Apache-2.0
//
// A libuv loop with four additions: a wake-up from other threads, one deadline by CLOCK_BOOTTIME, a callback at the end
// of each turn, and use by another thread while the loop's own thread waits.
//
// A turn: wait for events, run every callback on uv(), call `on_turn` once; then release the loop and call
// `after_turn`. RequestTurn skips the wait.
//
// Thread: Wake on any, until Close. TryUse on any. Construction and destruction while no thread runs the loop.
// Everything else by the thread that holds the loop: the one in Run, except while it waits, or the one within TryUse.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "core/types.h"

namespace distlock::shard {

class Loop {
 public:
  // Aborts when the system is out of descriptors: a daemon that cannot watch its sockets must not start.
  explicit Loop(std::function<void()> on_turn, std::function<void()> after_turn = [] {});
  ~Loop();  // every other handle on uv() must have been closed and Run have returned
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  uv_loop_t* uv() { return &loop_; }

  void Wake();

  // Runs `use` on this thread as if it were a callback of the loop. Returns false and does nothing when the loop is at
  // work, has not begun to run, or is closed.
  template <typename Use>
  [[nodiscard]] bool TryUse(Use use) {
    std::unique_lock lock(held_, std::try_to_lock);
    if (!lock || !running_ || closed_) return false;
    holder_ = std::this_thread::get_id();
    use();
    if (!closed_ && MustNotWait()) Wake();
    holder_ = {};
    return true;
  }

  // Makes the next turn start without waiting for events.
  void RequestTurn();

  // A turn begins soon after `deadline` at the latest; at once when it has passed. A later deadline does not cancel an
  // earlier one.
  void WakeAt(core::Instant deadline);

  // Runs turns until all handles are closed: the loop's own, by Close, and those that others have put on uv().
  void Run();
  void Close();

  // True for the thread that holds the loop.
  bool Held() const { return holder_ == std::this_thread::get_id(); }

 private:
  // Releases the loop, calls after_turn_ and waits for events.
  void Wait(std::unique_lock<std::mutex>& lock);
  // True when work that was started during the wait is due before the wait ends.
  bool MustNotWait() const;
  void OnTimer();
  void OnTurn();

  // Constant after construction.
  const std::function<void()> on_turn_;
  const std::function<void()> after_turn_;

  // Watches libuv's epoll descriptor. Waiting on that descriptor itself would consume events that libuv must see: some
  // versions (1.49.0) get their own wake-up only once.
  int events_fd_ = -1;

  // Not held while the thread of Run waits.
  std::mutex held_;

  // Guarded by held_, except that Wake uses wake_.
  std::thread::id holder_;
  bool running_ = false;
  uint64_t waits_until_ = 0;  // by uv_now; during a wait
  uv_loop_t loop_;
  uv_async_t wake_;
  uv_poll_t timer_;
  uv_check_t end_of_turn_;
  uv_idle_t no_wait_;
  int timer_fd_ = -1;
  core::Instant armed_ = core::kNever;  // the time that timer_fd_ is set to
  bool closed_ = false;
};

}  // namespace distlock::shard
