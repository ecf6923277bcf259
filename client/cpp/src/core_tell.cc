// SPDX-License-Identifier: Apache-2.0
//
// Core: on which thread the program's callbacks run.
#include <utility>

#include "core.h"

namespace distlock::internal {
namespace {

thread_local Core* telling = nullptr;  // the Core whose callbacks this thread is running
thread_local bool library_thread = false;

}  // namespace

bool Core::OnLibraryThread() { return library_thread; }

void Core::RunApart(Callback<void()> callback) {
  std::thread([callback = std::move(callback)]() mutable noexcept {
    library_thread = true;
    callback();
  }).detach();
}

void Core::Answer(Effects& fx, TellOn where) {
  if (!Forked() && telling != this) Flush(where == TellOn::kThisThread);  // before the callbacks, which may take long
  if (where == TellOn::kLibraryThread && fx.HasCallbacks()) {
    Effects later;
    fx.MoveCallbacksTo(later);
    Post(std::move(later));
  }
  RunCallbacks(fx);
  if (!Forked() && telling != this) Flush(where == TellOn::kThisThread);
}

void Core::Post(Effects fx) {
  if (!Forked()) {
    MutexLock lock(&mu_);
    if (!thread_ended_) {
      posted_.Append(std::move(fx));
      WakeThread();
      return;
    }
  }
  RunApart([self = shared_from_this(), left = std::move(fx)]() mutable { self->RunCallbacks(left); });
}

void Core::Tell(Effects& fx) {
  Core* const outer = std::exchange(telling, this);
  const bool was_library_thread = std::exchange(library_thread, true);
  RunCallbacks(fx);
  library_thread = was_library_thread;
  telling = outer;
  if (telling != this) Flush();
}

void Core::TellOnCallThread(Effects& fx, bool shares_thread) {
  if (shares_thread) {
    Effects later;
    fx.MoveProgramsTo(later);
    if (!later.empty()) Post(std::move(later));
  }
  Tell(fx);
}

void Core::RunCallbacks(Effects& fx) noexcept {
  for (const auto& [level, text] : fx.log) options_.log(level, text);
  for (auto& [spec, info] : fx.queued) {
    if (options_.executor) {
      options_.executor([spec = spec, info = std::move(info)] { spec->on_queued(info); });
    } else {
      spec->on_queued(info);
    }
  }
  for (auto& [lease, callback] : fx.granted) {
    Guard guard(shared_from_this(), std::move(lease));
    if (callback) callback(std::move(guard));
  }
  for (auto& [callback, refusal] : fx.refused) callback(Result<Guard>(std::move(refusal)));
  for (std::stop_source& stop : fx.stopped) stop.request_stop();
  for (auto& [callback, outcome] : fx.released) {
    if (callback) callback(outcome);
  }
  for (auto& [callback, refusal] : fx.changed) {
    if (callback) callback(std::move(refusal));
  }
  if (fx.draining && options_.on_draining) {
    if (options_.executor) {
      options_.executor([call = options_.on_draining, left = *fx.draining] { call(left); });
    } else {
      options_.on_draining(*fx.draining);
    }
  }
  fx.Clear();
}

}  // namespace distlock::internal
