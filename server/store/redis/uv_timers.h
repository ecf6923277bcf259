// SPDX-License-Identifier: Apache-2.0
//
// Timers of a uv loop. Thread: the loop's. A timer's handle is freed by the loop, which must therefore run until its
// handles are closed.
#pragma once

#include <time.h>
#include <uv.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "store/redis/transport.h"

namespace distlock::store {

class UvTimer : public Timer {
 public:
  UvTimer(uv_loop_t* loop, std::function<void()> fire) : handle_(new Handle{{}, std::move(fire)}) {
    uv_timer_init(loop, &handle_->timer);
    handle_->timer.data = handle_;
  }
  ~UvTimer() override {
    handle_->timer.data = nullptr;
    uv_close(reinterpret_cast<uv_handle_t*>(&handle_->timer),
             [](uv_handle_t* closed) { delete reinterpret_cast<Handle*>(closed); });
  }
  UvTimer(const UvTimer&) = delete;
  UvTimer& operator=(const UvTimer&) = delete;

  void Start(core::Duration delay) override {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(delay).count();
    // The loop's own idea of now is as old as its last turn, perhaps older than the whole delay.
    uv_update_time(handle_->timer.loop);
    uv_timer_start(&handle_->timer, &UvTimer::Fire, static_cast<uint64_t>(std::max<int64_t>(ms, 0)), 0);
  }
  void Stop() override { uv_timer_stop(&handle_->timer); }
  bool active() const override { return uv_is_active(reinterpret_cast<const uv_handle_t*>(&handle_->timer)) != 0; }

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

class UvTimers : public Timers {
 public:
  explicit UvTimers(uv_loop_t* loop) : loop_(loop) {}

  // CLOCK_BOOTTIME, as the whole daemon: it goes on during suspend.
  core::Instant Now() const override {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return core::Instant(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
  std::unique_ptr<Timer> Make(std::function<void()> fire) override {
    return std::make_unique<UvTimer>(loop_, std::move(fire));
  }

 private:
  uv_loop_t* const loop_;
};

}  // namespace distlock::store
