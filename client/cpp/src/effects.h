// SPDX-License-Identifier: Apache-2.0
//
// Effects are done when the Engine's mutex is free again, in order: mostly callbacks of the program, and on which
// thread.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "awaited.h"
#include "distlock/callback.h"
#include "distlock/client.h"

namespace distlock::internal {

class Effects {
 public:
  enum class By : uint8_t {
    kAnybody,   // the library's own, such as what wakes a caller that waits
    kGiver,     // stops tokens: the thread that gives the lock back; at any other end of a lock one of the library
    kLibrary,   // a thread of the library
    kExecutor,  // ClientOptions::executor, or a thread of the library
  };

  void Add(By by, Callback<void()> run) { effects_.push_back({by, std::move(run)}); }

  // `tell` calls `callback`, if there is one.
  template <class T>
  void Answer(const Callback<void(T)>& callback, Callback<void()> tell) {
    if (callback) Add(Awaited<T>::Has(callback) ? By::kAnybody : By::kLibrary, std::move(tell));
  }
  template <class T>
  void Answer(Callback<void(T)> callback, std::type_identity_t<T> answer) {
    if (!callback) return;
    const By by = Awaited<T>::Has(callback) ? By::kAnybody : By::kLibrary;
    Add(by, [callback = std::move(callback), answer = std::move(answer)]() mutable { callback(std::move(answer)); });
  }

  void Append(Effects later);
  // Takes out those of `first` and of what comes after it in By.
  Effects TakeFrom(By first);
  bool empty() const { return effects_.empty(); }

  // Does all of it, and keeps the room for more. A callback that throws ends the process. `options`: for the executor.
  void Run(const ClientOptions& options) noexcept;
  // The same where the library has no thread: after Close, and in a child of fork.
  void RunWithoutThread(const ClientOptions& options);

 private:
  struct Effect {
    By by;
    Callback<void()> run;
  };
  std::vector<Effect> effects_;
};

// True inside a callback of the library. A wait there would block the thread that has to end it.
bool OnLibraryThread();
// Runs `callback` on a new thread, which ends with it and counts as a thread of the library.
void RunApart(Callback<void()> callback);

// While it lives, this thread is one of the library's, and what it runs is of `owner`.
class LibraryThread {
 public:
  explicit LibraryThread(const void* owner);
  ~LibraryThread();
  LibraryThread(const LibraryThread&) = delete;
  LibraryThread& operator=(const LibraryThread&) = delete;
  static bool RunsFor(const void* owner);

 private:
  const void* const outer_;
};

}  // namespace distlock::internal
