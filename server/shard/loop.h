// SPDX-License-Identifier: Apache-2.0
//
// A libuv loop with the three things a shard needs of it: a wake-up from other threads, one deadline by CLOCK_BOOTTIME,
// and a hook at the end of each turn.
//
// Thread: Wake on any, until Close; construction and destruction while no thread runs it; all else on the thread that
// calls Run. A turn is: wait for events, let every callback on uv() run, then `on_turn` once.
#pragma once

#include <uv.h>

#include <functional>

#include "core/types.h"

namespace distlock::shard {

class Loop {
 public:
  // Aborts when the system is out of descriptors: a daemon that cannot watch its sockets must not start.
  explicit Loop(std::function<void()> on_turn);
  ~Loop();  // every other handle on uv() must have been closed and Run have returned
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  uv_loop_t* uv() { return &loop_; }

  void Wake();

  // The next turn comes without waiting for events.
  void RequestTurn();

  // A turn begins at the latest soon after `deadline`, at once when it has passed. A later deadline need not put off a
  // turn asked for before.
  void WakeAt(core::Instant deadline);

  // Runs turns until all handles are closed, the loop's own (Close) and those of others.
  void Run();
  void Close();

 private:
  void OnTimer();
  void OnTurn();

  // Constant after construction.
  const std::function<void()> on_turn_;

  // Owned by the thread that runs the loop; only Wake uses wake_ from others.
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
