// SPDX-License-Identifier: Apache-2.0
#include "acquirer.h"

#include <utility>

namespace distlock {

PendingLock::PendingLock(std::shared_ptr<internal::Core> core, internal::RequestPtr request)
    : core_(std::move(core)), request_(std::move(request)) {}

void PendingLock::Cancel() {
  if (core_ != nullptr) core_->Cancel(request_);
}

namespace internal {

PendingLock Acquirer::Start(std::optional<Duration> max_wait, LockCallback callback) const {
  // The guard is made first: whoever drops the callback gives the lock back.
  AcquireCallback answered = [core = core_,
                              tell = core_->ForProgram(std::move(callback))](Result<Leases> answer) mutable {
    Result<Guard> guard = GuardOf(core, std::move(answer));
    if (tell) tell(std::move(guard));
  };
  return {core_, core_->Acquire({&spec_, 1}, max_wait, std::move(answered))};
}

Result<Guard> Acquirer::Wait(std::optional<Duration> max_wait, const std::stop_token& cancel) const {
  if (OnLibraryThread()) return WouldDeadlock();
  if (cancel.stop_requested()) return CancelledBefore();
  Awaited<Result<Leases>> answer(core_->waiting());
  const RequestPtr request = core_->Acquire({&spec_, 1}, max_wait, answer.callback());
  const std::stop_callback on_cancel(cancel, [&] { core_->Cancel(request); });
  return GuardOf(core_, answer.Wait());
}

Result<Guard> Acquirer::GuardOf(const std::shared_ptr<Core>& core, Result<Leases> answer) {
  if (!answer.ok()) return answer.refusal();
  return core->GuardOf(std::move(answer->front()));
}

}  // namespace internal
}  // namespace distlock
