// SPDX-License-Identifier: Apache-2.0
#include "distlock/acquirer.h"

#include <absl/synchronization/notification.h>

#include <utility>

#include "core.h"

namespace distlock {

PendingLock::PendingLock(std::shared_ptr<internal::Core> core, internal::LeasePtr lease)
    : core_(std::move(core)), lease_(std::move(lease)) {}

void PendingLock::Cancel() {
  if (core_ != nullptr) core_->Cancel(lease_);
}

namespace internal {

Acquirer::Acquirer(std::shared_ptr<Core> core, std::shared_ptr<const Spec> spec)
    : core_(std::move(core)), spec_(std::move(spec)) {}

Acquirer Acquirer::WithPermits(uint32_t permits) const { return {core_, internal::WithPermits(*spec_, permits)}; }

Result<Guard> Acquirer::Acquire(const std::stop_token& cancel) const { return Wait(spec_->max_wait, cancel); }
Result<Guard> Acquirer::TryAcquire() const { return Wait(Duration::zero(), {}); }
Result<Guard> Acquirer::TryAcquireFor(Duration max_wait, const std::stop_token& cancel) const {
  return Wait(max_wait, cancel);
}

PendingLock Acquirer::AcquireAsync(LockCallback callback) const { return Start(spec_->max_wait, std::move(callback)); }
PendingLock Acquirer::TryAcquireAsync(LockCallback callback) const {
  return Start(Duration::zero(), std::move(callback));
}
PendingLock Acquirer::TryAcquireForAsync(Duration max_wait, LockCallback callback) const {
  return Start(max_wait, std::move(callback));
}

PendingLock Acquirer::Start(std::optional<Duration> max_wait, LockCallback callback) const {
  return {core_, core_->Acquire(spec_, max_wait, std::move(callback))};
}

Result<Guard> Acquirer::Wait(std::optional<Duration> max_wait, const std::stop_token& cancel) const {
  if (Core::OnLibraryThread()) {
    return Refusal{.reason = RefusalReason::kWouldDeadlock, .message = "called from a callback; use the Async form"};
  }
  if (cancel.stop_requested()) {
    return Refusal{.reason = RefusalReason::kCancelled, .message = "cancelled before it was asked for"};
  }
  struct {
    std::optional<Result<Guard>> result;
    absl::Notification done;
  } answer;
  const LeasePtr lease = core_->Acquire(spec_, max_wait, [&answer](Result<Guard> result) {
    answer.result.emplace(std::move(result));
    answer.done.Notify();
  });
  {
    const std::stop_callback on_cancel(cancel, [&] { core_->Cancel(lease); });
    answer.done.WaitForNotification();
  }
  return *std::move(answer.result);
}

}  // namespace internal
}  // namespace distlock
