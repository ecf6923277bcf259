// SPDX-License-Identifier: Apache-2.0
//
// A one-shot timer of a uv loop as a typed owner. Thread: the loop's. After destruction the callback never runs; the
// handle itself is freed by the loop, which must therefore run until its handles are closed.
#pragma once

#include <uv.h>

#include <algorithm>
#include <chrono>
#include <functional>

namespace distlock::store {

class LoopTimer {
 public:
  LoopTimer(uv_loop_t* loop, std::function<void()> fire) : handle_(new Handle{{}, std::move(fire)}) {
    uv_timer_init(loop, &handle_->timer);
    handle_->timer.data = handle_;
  }
  ~LoopTimer() {
    handle_->timer.data = nullptr;
    uv_close(reinterpret_cast<uv_handle_t*>(&handle_->timer),
             [](uv_handle_t* closed) { delete reinterpret_cast<Handle*>(closed); });
  }
  LoopTimer(const LoopTimer&) = delete;
  LoopTimer& operator=(const LoopTimer&) = delete;

  // Also restarts. The callback may destroy the timer.
  void Start(std::chrono::nanoseconds delay) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(delay).count();
    // The loop's own idea of now is as old as its last turn, perhaps older than the whole delay.
    uv_update_time(handle_->timer.loop);
    uv_timer_start(&handle_->timer, &LoopTimer::Fire, static_cast<uint64_t>(std::max<int64_t>(ms, 0)), 0);
  }
  void Stop() { uv_timer_stop(&handle_->timer); }
  bool active() const { return uv_is_active(reinterpret_cast<const uv_handle_t*>(&handle_->timer)) != 0; }

 private:
  struct Handle {
    uv_timer_t timer;  // first: the loop knows the handle by it
    std::function<void()> fire;
  };

  static void Fire(uv_timer_t* timer) {
    if (timer->data == nullptr) return;
    static_cast<Handle*>(timer->data)->fire();
  }

  Handle* handle_;
};

}  // namespace distlock::store
