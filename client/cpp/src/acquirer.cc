// SPDX-License-Identifier: Apache-2.0
#include "acquirer.h"

#include <utility>

namespace distlock {

PendingLock::PendingLock(std::shared_ptr<internal::Core> core, internal::LeasePtr lease)
    : core_(std::move(core)), lease_(std::move(lease)) {}

void PendingLock::Cancel() {
  if (core_ != nullptr) core_->Cancel(lease_);
}

namespace internal {

PendingLock Acquirer::Start(std::optional<Duration> max_wait, LockCallback callback) const {
  return {core_, core_->Acquire(spec_, max_wait, core_->ForProgram(std::move(callback)))};
}

Result<Guard> Acquirer::Wait(std::optional<Duration> max_wait, const std::stop_token& cancel) const {
  if (Core::OnLibraryThread()) return WouldDeadlock();
  if (cancel.stop_requested()) return CancelledBefore();
  Awaited<Result<Guard>> answer(core_->waiting());
  const LeasePtr lease = core_->Acquire(spec_, max_wait, answer.callback(), TellOn::kThisThread);
  const std::stop_callback on_cancel(cancel, [&] { core_->Cancel(lease, TellOn::kThisThread); });
  return answer.Wait();
}

}  // namespace internal
}  // namespace distlock
