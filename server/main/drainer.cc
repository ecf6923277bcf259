// SPDX-License-Identifier: Apache-2.0
#include "main/drainer.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/time/time.h"
#include "main/store_setup.h"
#include "ops/log.h"
#include "shard/boot_clock.h"

namespace distlock {

void Drainer::Attach(rpc::Server* server) {
  std::lock_guard lock(mu_);
  server_ = server;
  if (deadline_) server_->Drain();
}

void Drainer::OnBegin(std::function<void()> begun) {
  std::lock_guard lock(mu_);
  begun_ = std::move(begun);
  if (deadline_) begun_();
}

core::Duration Drainer::Begin(std::optional<core::Duration> timeout) {
  std::lock_guard lock(mu_);
  const core::Instant now = shard::BootNow();
  const core::Instant deadline = now + timeout.value_or(timeout_);
  if (deadline_ && *deadline_ <= deadline) return std::max<core::Duration>(*deadline_ - now, {});
  deadline_ = deadline;
  const core::Duration left = deadline - now;
  ops::Info("draining", {{"timeout", absl::FromChrono(left)}});
  metrics_.draining.Set(1);
  supervisor_.Stopping();
  if (server_ != nullptr) server_->Drain();
  if (begun_) begun_();
  shards_.Drain(left, [this] {
    {
      std::lock_guard done_lock(mu_);
      done_ = true;
    }
    wakeups_.Notify();
  });
  return left;
}

absl::Status Drainer::AwaitEnd(store::EmbeddedServer* embedded, const std::function<void(Wake)>& on_wake) {
  bool stop_heard = false;
  while (!done()) {
    const Wake wake = wakeups_.Wait(absl::Milliseconds(500));
    on_wake(wake);
    if (wake == Wake::kStop && std::exchange(stop_heard, true)) {
      ops::Warn("second signal: stopping at once, leases are left to their ttl");
      std::_Exit(1);
    }
    // AdminService.Drain may have begun the drain already, for example from a hook that runs before the signal.
    if (wake == Wake::kStop) ops::Info("signal to stop", {{"time_left", absl::FromChrono(Begin(std::nullopt))}});
    // Checked on every wakeup, since SIGCHLD may have come before this loop.
    if (absl::Status alive = CheckAlive(embedded); !alive.ok()) return alive;
  }
  return absl::OkStatus();
}

bool Drainer::done() const {
  std::lock_guard lock(mu_);
  return done_;
}

}  // namespace distlock
