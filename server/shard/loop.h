// SPDX-License-Identifier: Apache-2.0
//
// A libuv loop with the four things a shard needs of it: a wake-up from other threads, one deadline by CLOCK_BOOTTIME,
// a hook at the end of each turn, and use by another thread while its own one waits.
//
// Thread: Wake on any, until Close; TryUse on any; construction and destruction while no thread runs it; all else where
// the loop is held: on the thread that calls Run, but for its waits, and within TryUse. A turn is: wait for events (some
// turns come without), let every callback on uv() run, then `on_turn` once; then, not holding the loop, `after_turn`.
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

  // Runs `use` here, as a callback of the loop would run. False, and nothing happened: the loop is at work, has not
  // begun to run, or is closed.
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

  // The next turn comes without waiting for events.
  void RequestTurn();

  // A turn begins at the latest soon after `deadline`, at once when it has passed. A later deadline need not put off a
  // turn asked for before.
  void WakeAt(core::Instant deadline);

  // Runs turns until all handles are closed, the loop's own (Close) and those of others.
  void Run();
  void Close();

  // By who holds the loop: true.
  bool Held() const { return holder_ == std::this_thread::get_id(); }

 private:
  // Lets go of the loop for after_turn_ and the wait for events.
  void Wait(std::unique_lock<std::mutex>& lock);
  // What was started since the wait began cannot wait for the wait's end.
  bool MustNotWait() const;
  void OnTimer();
  void OnTurn();

  // Constant after construction.
  const std::function<void()> on_turn_;
  const std::function<void()> after_turn_;

  // Watches libuv's epoll descriptor. Waiting on that descriptor itself would take events which libuv must see: some
  // versions (1.49.0) are told of their own wake-up only once.
  int events_fd_ = -1;

  // Not held while the thread of Run waits.
  std::mutex held_;

  // Guarded by held_, but that Wake uses wake_.
  std::thread::id holder_;
  bool running_ = false;
  uint64_t waits_until_ = 0;  // by uv_now; during a wait
  uv_loop_t loop_;
  uv_async_t wake_;
  uv_poll_t timer_;
  uv_check_t end_of_turn_;
  uv_idle_t no_wait_;
  int timer_fd_ = -1;
  core::Instant armed_ = core::kNever;  // what timer_fd_ is set to
  bool closed_ = false;
};

}  // namespace distlock::shard
