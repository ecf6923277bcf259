// SPDX-License-Identifier: Apache-2.0
#include "callbacks.h"

#include <thread>
#include <utility>

namespace distlock::internal {
namespace {

thread_local const void* runs_for = nullptr;
thread_local bool library_thread = false;

}  // namespace

bool OnLibraryThread() { return library_thread; }

LibraryThread::LibraryThread(const void* owner)
    : outer_(std::exchange(runs_for, owner)), was_library_thread_(std::exchange(library_thread, true)) {}

LibraryThread::~LibraryThread() {
  runs_for = outer_;
  library_thread = was_library_thread_;
}

bool LibraryThread::RunsFor(const void* owner) { return runs_for == owner; }

void RunApart(Callback<void()> callback) {
  std::thread([callback = std::move(callback)]() mutable noexcept {
    library_thread = true;
    callback();
  }).detach();
}

void Run(Effects& fx, const ClientOptions& options) noexcept {
  for (auto& [by, run] : fx) {
    if (by == Effects::By::kExecutor && options.executor) {
      options.executor(std::move(run));
    } else {
      run();
    }
  }
}

void RunWithoutThread(Effects fx, const ClientOptions& options) {
  Effects apart =
      fx.Extract([](Effects::By by) { return by == Effects::By::kLibrary || by == Effects::By::kExecutor; });
  Run(fx, options);
  if (!apart.empty()) RunApart([apart = std::move(apart), options]() mutable { Run(apart, options); });
}

}  // namespace distlock::internal
