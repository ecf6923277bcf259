// SPDX-License-Identifier: Apache-2.0
//
// Asio: every wait as an asynchronous operation with any completion token (a callback, use_awaitable, use_future, ...):
// `Result<Guard> guard = co_await distlock::AsyncLock(mutex, asio::use_awaitable);`. Header only. Uses standalone Asio
// where <asio.hpp> is found, else Boost.Asio; DISTLOCK_BOOST_ASIO chooses Boost's where both are there.
//
// - The handler runs on its associated executor, never on a thread of the library and never from within the call. While
//   it waits, that executor has outstanding work, so that run() does not return.
// - A terminal, partial or total cancellation (its associated cancellation slot) withdraws the wait: the answer is then
//   kCancelled, or the answer that came first.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#if !defined(DISTLOCK_BOOST_ASIO) && __has_include(<asio.hpp>)
#include <asio.hpp>
namespace distlock::net {
using namespace ::asio;  // NOLINT
}
#else
#include <boost/asio.hpp>
namespace distlock::net {
using namespace ::boost::asio;  // NOLINT
}
#endif

#include "distlock/client.h"

namespace distlock {

// For any Async call. `start` is called with a callback of void(Answer), and returns a PendingLock or nothing.
template <class Answer, class Start, class Token>
auto AsyncCall(Start start, Token&& token) {
  return net::async_initiate<Token, void(Answer)>(
      [](auto handler, Start begin) {
        // The slot is the handler's, which moves into the callback; the slot stays where it is until the handler runs.
        const auto slot = net::get_associated_cancellation_slot(handler);
        auto work = net::prefer(net::get_associated_executor(handler), net::execution::outstanding_work.tracked);
        auto pending = std::make_shared<PendingLock>();
        if (slot.is_connected()) {
          // As the handler, on its executor: an emission cannot cross the handler's call.
          auto cancels = slot;
          cancels.assign([pending](net::cancellation_type) { pending->Cancel(); });
        }
        Callback<void(Answer)> answered = [handler = std::move(handler),
                                           work = std::move(work)](Answer answer) mutable {
          auto executor = work;
          net::post(executor,
                    [handler = std::move(handler), answer = std::move(answer), work = std::move(work)]() mutable {
                      auto slot_of_handler = net::get_associated_cancellation_slot(handler);
                      if (slot_of_handler.is_connected()) slot_of_handler.clear();
                      std::move(handler)(std::move(answer));
                    });
        };
        if constexpr (std::is_void_v<decltype(begin(std::move(answered)))>) {
          begin(std::move(answered));
        } else {
          *pending = begin(std::move(answered));
        }
      },
      token, std::move(start));
}

// Each waits as the Async call of that name does. Make the lock object in a statement of its own: GCC 12 destroys
// twice what is passed by value in a co_await expression, such as the key in MakeMutex("k").
template <class Token>
auto AsyncLock(const Mutex& mutex, Token&& token) {
  return AsyncCall<Result<Guard>>(
      [mutex = mutex](LockCallback done) mutable { return mutex.LockAsync(std::move(done)); },
      std::forward<Token>(token));
}
template <class Token>
auto AsyncTryLockFor(const Mutex& mutex, Duration max_wait, Token&& token) {
  return AsyncCall<Result<Guard>>(
      [mutex = mutex, max_wait](LockCallback done) mutable { return mutex.TryLockForAsync(max_wait, std::move(done)); },
      std::forward<Token>(token));
}
template <class Token>
auto AsyncReadLock(const RwLock& lock, Token&& token) {
  return AsyncCall<Result<Guard>>(
      [lock = lock](LockCallback done) mutable { return lock.ReadLockAsync(std::move(done)); },
      std::forward<Token>(token));
}
template <class Token>
auto AsyncWriteLock(const RwLock& lock, Token&& token) {
  return AsyncCall<Result<Guard>>(
      [lock = lock](LockCallback done) mutable { return lock.WriteLockAsync(std::move(done)); },
      std::forward<Token>(token));
}
template <class Token>
auto AsyncAcquire(const Semaphore& semaphore, int32_t permits, Token&& token) {
  return AsyncCall<Result<Guard>>(
      [semaphore = semaphore, permits](LockCallback done) mutable {
        return semaphore.AcquireAsync(std::move(done), permits);
      },
      std::forward<Token>(token));
}
template <class Token>
auto AsyncLock(const MultiLock& locks, Token&& token) {
  return AsyncCall<Result<MultiGuard>>(
      [locks = locks](MultiLockCallback done) mutable { return locks.LockAsync(std::move(done)); },
      std::forward<Token>(token));
}
template <class Token>
auto AsyncCampaign(const Election& election, Token&& token) {
  return AsyncCall<Result<Leadership>>(
      [election = election](CampaignCallback done) mutable { return election.CampaignAsync(std::move(done)); },
      std::forward<Token>(token));
}

// Gives the lock back. The guard must outlive the operation.
template <class Token>
auto AsyncRelease(Guard& guard, Token&& token) {
  return AsyncCall<ReleaseOutcome>([&guard](ReleaseCallback done) { guard.ReleaseAsync(std::move(done)); },
                                   std::forward<Token>(token));
}

}  // namespace distlock
