// SPDX-License-Identifier: Apache-2.0
#include "effects.h"

#include <algorithm>
#include <iterator>
#include <thread>

namespace distlock::internal {
namespace {

thread_local const void* runs_for = nullptr;

}  // namespace

bool OnLibraryThread() { return runs_for != nullptr; }

LibraryThread::LibraryThread(const void* owner) : outer_(std::exchange(runs_for, owner)) {}
LibraryThread::~LibraryThread() { runs_for = outer_; }
bool LibraryThread::RunsFor(const void* owner) { return runs_for == owner; }

void RunApart(Callback<void()> callback) {
  std::thread([callback = std::move(callback)]() mutable noexcept {
    const LibraryThread here(&callback);
    callback();
  }).detach();
}

void Effects::Append(Effects later) {
  std::move(later.effects_.begin(), later.effects_.end(), std::back_inserter(effects_));
}

Effects Effects::TakeFrom(By first) {
  const auto leave =
      std::stable_partition(effects_.begin(), effects_.end(), [&](const Effect& effect) { return effect.by < first; });
  Effects out;
  out.effects_.assign(std::make_move_iterator(leave), std::make_move_iterator(effects_.end()));
  effects_.erase(leave, effects_.end());
  return out;
}

void Effects::Run(const ClientOptions& options) noexcept {
  for (Effect& effect : effects_) {
    Callback<void()> run = std::move(effect.run);
    if (effect.by == By::kExecutor && options.executor) {
      options.executor(std::move(run));
    } else {
      run();
    }
  }
  effects_.clear();
}

void Effects::RunWithoutThread(const ClientOptions& options) {
  Effects apart = TakeFrom(By::kLibrary);
  Run(options);
  if (!apart.empty()) RunApart([apart = std::move(apart), options]() mutable { apart.Run(options); });
}

}  // namespace distlock::internal
