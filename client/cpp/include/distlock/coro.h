// SPDX-License-Identifier: Apache-2.0
//
// Coroutines: `Result<Guard> guard = co_await distlock::Await(mutex);`. Header only, for any coroutine type.
//
// The coroutine goes on where the callback of an Async call would run: on ClientOptions::executor, or, without one, on
// a thread of the library, which it must not block before its next co_await (blocking calls are refused there:
// kWouldDeadlock). Set an executor, or let the first thing that the coroutine does be to go elsewhere.
//
// An awaitable is awaited once. A coroutine must not be destroyed while it waits: have `cancel` end the wait instead.
#pragma once

#include <coroutine>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "distlock/client.h"

namespace distlock {

// Waits for the answer of an Async call. `Start` is called with the callback, and returns a PendingLock or nothing.
template <class Answer, class Start>
class Awaitable {
 public:
  Awaitable(Start start, std::stop_token cancel) : start_(std::move(start)), cancel_(std::move(cancel)) {}

  bool await_ready() const noexcept { return false; }

  void await_suspend(std::coroutine_handle<> waiting) {
    // The answer may come, and the coroutine with this object may end, before start_ returns: what is used after it is
    // shared.
    const auto asked = std::make_shared<Asked>();
    on_cancel_.emplace(cancel_, OnCancel{asked});
    auto start = std::move(start_);
    Callback<void(Answer)> answered = [this, waiting](Answer answer) {
      answer_.emplace(std::move(answer));
      waiting.resume();
    };
    using Pending = decltype(start(std::move(answered)));
    if constexpr (std::is_void_v<Pending>) {
      start(std::move(answered));
    } else {
      asked->Is(start(std::move(answered)));
    }
  }

  Answer await_resume() {
    on_cancel_.reset();
    return *std::move(answer_);
  }

 private:
  // The acquire, which `cancel` may withdraw before it is known here.
  class Asked {
   public:
    void Is(PendingLock pending) {
      bool cancelled = false;
      {
        const std::lock_guard lock(mu_);
        pending_ = pending;
        cancelled = cancelled_;
      }
      if (cancelled) pending.Cancel();
    }
    void Cancel() {
      PendingLock pending;
      {
        const std::lock_guard lock(mu_);
        cancelled_ = true;
        pending = pending_;
      }
      pending.Cancel();
    }

   private:
    std::mutex mu_;
    PendingLock pending_;
    bool cancelled_ = false;
  };
  struct OnCancel {
    std::shared_ptr<Asked> asked;
    void operator()() const { asked->Cancel(); }
  };

  Start start_;
  std::stop_token cancel_;
  std::optional<std::stop_callback<OnCancel>> on_cancel_;
  std::optional<Answer> answer_;
};

// For any Async call: `co_await Await<Result<Guard>>([&](auto done) { return rw.ReadLockAsync(std::move(done)); })`.
template <class Answer, class Start>
Awaitable<Answer, Start> Await(Start start, const std::stop_token& cancel = {}) {
  return {std::move(start), cancel};
}

// Each waits as the Async call of that name does. Make the lock object in a statement of its own: GCC 12 destroys
// twice what is passed by value in a co_await expression, such as the key in MakeMutex("k").
inline auto Await(const Mutex& mutex, const std::stop_token& cancel = {}) {
  return Await<Result<Guard>>([mutex = mutex](LockCallback done) mutable { return mutex.LockAsync(std::move(done)); },
                              cancel);
}
inline auto AwaitFor(const Mutex& mutex, Duration max_wait, const std::stop_token& cancel = {}) {
  return Await<Result<Guard>>(
      [mutex = mutex, max_wait](LockCallback done) mutable { return mutex.TryLockForAsync(max_wait, std::move(done)); },
      cancel);
}
inline auto AwaitRead(const RwLock& lock, const std::stop_token& cancel = {}) {
  return Await<Result<Guard>>([lock = lock](LockCallback done) mutable { return lock.ReadLockAsync(std::move(done)); },
                              cancel);
}
inline auto AwaitWrite(const RwLock& lock, const std::stop_token& cancel = {}) {
  return Await<Result<Guard>>([lock = lock](LockCallback done) mutable { return lock.WriteLockAsync(std::move(done)); },
                              cancel);
}
inline auto Await(const Semaphore& semaphore, int32_t permits = 1, const std::stop_token& cancel = {}) {
  return Await<Result<Guard>>(
      [semaphore = semaphore, permits](LockCallback done) mutable {
        return semaphore.AcquireAsync(std::move(done), permits);
      },
      cancel);
}
inline auto Await(const MultiLock& locks, const std::stop_token& cancel = {}) {
  return Await<Result<MultiGuard>>(
      [locks = locks](MultiLockCallback done) mutable { return locks.LockAsync(std::move(done)); }, cancel);
}
inline auto Await(const Election& election, const std::stop_token& cancel = {}) {
  return Await<Result<Leadership>>(
      [election = election](CampaignCallback done) mutable { return election.CampaignAsync(std::move(done)); }, cancel);
}

// Gives the lock back. The guard must outlive the wait.
inline auto AwaitRelease(Guard& guard) {
  return Await<ReleaseOutcome>([&guard](ReleaseCallback done) { guard.ReleaseAsync(std::move(done)); });
}

}  // namespace distlock
