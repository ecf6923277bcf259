// SPDX-License-Identifier: Apache-2.0
//
// The threads that run the program's callbacks.
#pragma once

#include "distlock/callback.h"
#include "distlock/client.h"
#include "effects.h"

namespace distlock::internal {

// True inside a callback of the library. A wait there would block the thread that has to end it.
bool OnLibraryThread();

// While it lives, this thread is one of the library's, and what it runs is of `owner`.
class LibraryThread {
 public:
  explicit LibraryThread(const void* owner);
  ~LibraryThread();
  LibraryThread(const LibraryThread&) = delete;
  LibraryThread& operator=(const LibraryThread&) = delete;

  // Whether this thread runs something of `owner`.
  static bool RunsFor(const void* owner);

 private:
  const void* const outer_;
  const bool was_library_thread_;
};

// Runs `callback` on a new thread, which ends with it and counts as a thread of the library.
void RunApart(Callback<void()> callback);

// Runs all of them. A callback that throws ends the process. `options`: for the executor.
void Run(Effects& fx, const ClientOptions& options) noexcept;
// The same where the library has no thread: after Close, and in a child of fork.
void RunWithoutThread(Effects fx, const ClientOptions& options);

}  // namespace distlock::internal
