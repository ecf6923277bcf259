// SPDX-License-Identifier: Apache-2.0
#include "shard/loop.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "shard/boot_clock.h"

namespace distlock::shard {
namespace {

void Check(int uv_result, const char* what) {
  if (uv_result >= 0) return;
  std::fprintf(stderr, "distlock: event loop: %s: %s\n", what, uv_strerror(uv_result));
  std::abort();
}

constexpr uint64_t kForEver = ~uint64_t{0};

Loop* Self(void* data) { return static_cast<Loop*>(data); }

template <typename Handle>
void CloseHandle(Handle& handle) {
  uv_close(reinterpret_cast<uv_handle_t*>(&handle), nullptr);
}

}  // namespace

Loop::Loop(std::function<void()> on_turn, std::function<void()> after_turn)
    : on_turn_(std::move(on_turn)), after_turn_(std::move(after_turn)) {
  Check(uv_loop_init(&loop_), "cannot make it");
  // libuv's own timers do not count suspended time.
  timer_fd_ = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  Check(timer_fd_ < 0 ? -errno : 0, "timerfd_create");
  events_fd_ = epoll_create1(EPOLL_CLOEXEC);
  Check(events_fd_ < 0 ? -errno : 0, "epoll_create1");
  epoll_event any{};
  any.events = EPOLLIN;  // level-triggered: ready until libuv has taken its events
  Check(epoll_ctl(events_fd_, EPOLL_CTL_ADD, uv_backend_fd(&loop_), &any) < 0 ? -errno : 0, "epoll_ctl");

  wake_.data = timer_.data = end_of_turn_.data = no_wait_.data = this;
  // A wake-up only ends the wait: the mailbox is read at the end of the turn.
  Check(uv_async_init(&loop_, &wake_, [](uv_async_t*) {}), "uv_async_init");
  Check(uv_poll_init(&loop_, &timer_, timer_fd_), "uv_poll_init");
  Check(uv_poll_start(&timer_, UV_READABLE, [](uv_poll_t* h, int, int) { Self(h->data)->OnTimer(); }), "uv_poll_start");
  Check(uv_check_init(&loop_, &end_of_turn_), "uv_check_init");
  Check(uv_check_start(&end_of_turn_, [](uv_check_t* h) { Self(h->data)->OnTurn(); }), "uv_check_start");
  Check(uv_idle_init(&loop_, &no_wait_), "uv_idle_init");
}

Loop::~Loop() {
  if (!closed_) Close();
  Run();
  close(events_fd_);
  Check(uv_loop_close(&loop_), "a handle was left open");
  close(timer_fd_);
}

void Loop::Wake() { Check(uv_async_send(&wake_), "uv_async_send"); }

void Loop::RequestTurn() {
  // An active idle handle makes libuv look at its descriptors without waiting.
  if (!closed_) uv_idle_start(&no_wait_, [](uv_idle_t*) {});
}

void Loop::WakeAt(core::Instant deadline) {
  // The timer is not moved to a later deadline: an early turn costs less than a system call.
  if (deadline >= armed_) return;
  armed_ = deadline;
  const auto since_boot = deadline.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
  itimerspec when{};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = (since_boot - seconds).count();
  if (since_boot <= core::Duration::zero()) when.it_value = {.tv_sec = 0, .tv_nsec = 1};  // all zero would disarm
  Check(timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr) < 0 ? -errno : 0, "timerfd_settime");
}

void Loop::Run() {
  std::unique_lock lock(held_);
  holder_ = std::this_thread::get_id();
  running_ = true;
  while (uv_run(&loop_, UV_RUN_NOWAIT) != 0) Wait(lock);
  running_ = false;
}

void Loop::Wait(std::unique_lock<std::mutex>& lock) {
  const int timeout = uv_backend_timeout(&loop_);
  waits_until_ = timeout < 0 ? kForEver : uv_now(&loop_) + static_cast<uint64_t>(timeout);
  holder_ = {};
  lock.unlock();
  after_turn_();
  // Only waits: uv_run takes the events, once the loop is held again.
  if (timeout != 0) {
    epoll_event event;
    epoll_wait(events_fd_, &event, 1, timeout);
  }
  lock.lock();
  holder_ = std::this_thread::get_id();
}

bool Loop::MustNotWait() const {
  const int timeout = uv_backend_timeout(&loop_);
  return timeout == 0 || (timeout > 0 && uv_now(&loop_) + static_cast<uint64_t>(timeout) < waits_until_);
}

void Loop::Close() {
  assert(!closed_);
  closed_ = true;
  CloseHandle(wake_);
  CloseHandle(timer_);
  CloseHandle(end_of_turn_);
  CloseHandle(no_wait_);
}

void Loop::OnTimer() {
  uint64_t expirations = 0;
  [[maybe_unused]] const auto n = read(timer_fd_, &expirations, sizeof expirations);
  armed_ = core::kNever;
}

void Loop::OnTurn() {
  uv_idle_stop(&no_wait_);
  on_turn_();
}

}  // namespace distlock::shard
