// SPDX-License-Identifier: Apache-2.0
#include "distlock/multi_lock.h"

#include <algorithm>
#include <atomic>
#include <stop_token>
#include <utility>

#include "acquirer.h"
#include "distlock/client.h"
#include "distlock/wire/limits.h"

namespace distlock {
namespace {

using internal::Core;
using internal::Leases;
using internal::MakeSpec;

bool IsAllowed(size_t size) { return size > 0 && size <= wire::kMostLocksTogether; }

Refusal WrongSize(size_t size) {
  Refusal refusal{.reason = RefusalReason::kInvalidArgument,
                  .message = std::to_string(size) + " locks are asked for together; 1.." +
                             std::to_string(wire::kMostLocksTogether) + " are allowed"};
  refusal.field_problems.push_back({"acquire.locks", refusal.message});
  return refusal;
}

int Severity(LockState state) {
  switch (state) {
    case LockState::kHeld:
      return 0;
    case LockState::kAtRisk:
      return 1;
    case LockState::kReleased:
      return 2;
    case LockState::kLost:
      return 3;
  }
  return 3;
}

}  // namespace

LockSet::LockSet(const std::vector<std::string>& keys, const LockOptions& options) : max_wait_(options.max_wait) {
  for (const std::string& key : keys) Exclusive(key, options);
}

LockSet& LockSet::Exclusive(std::string key, LockOptions options) {
  locks_.push_back(MakeSpec(std::move(key), std::move(options)));
  return *this;
}

LockSet& LockSet::Shared(std::string key, LockOptions options) {
  locks_.push_back(MakeSpec(std::move(key), std::move(options), {.mode = v1::LOCK_MODE_SHARED}));
  return *this;
}

LockSet& LockSet::Permits(std::string key, int32_t limit, int32_t permits, LockOptions options) {
  const auto one =
      MakeSpec(std::move(key), std::move(options), {.mode = v1::LOCK_MODE_PERMIT, .permits = 1, .limit = limit});
  locks_.push_back(internal::WithPermits(one, permits));
  return *this;
}

LockSet& LockSet::MaxWait(std::optional<Duration> max_wait) {
  max_wait_ = max_wait;
  return *this;
}

struct MultiGuard::Parts {
  std::vector<Guard> guards;
  std::stop_token any_ends;
};

MultiGuard::MultiGuard() = default;
MultiGuard::MultiGuard(std::vector<Guard> guards, std::stop_token any_ends)
    : parts_(std::make_unique<Parts>(Parts{std::move(guards), std::move(any_ends)})) {}
MultiGuard::MultiGuard(MultiGuard&&) noexcept = default;
MultiGuard& MultiGuard::operator=(MultiGuard&&) noexcept = default;
MultiGuard::~MultiGuard() = default;

ReleaseOutcome MultiGuard::Release() {
  if (size() == 0) return ReleaseOutcome::kAlreadyGone;
  struct Answers {
    explicit Answers(size_t size) : outcomes(size, ReleaseOutcome::kUnknown), missing(size) {}
    std::vector<ReleaseOutcome> outcomes;
    std::atomic<size_t> missing;
    internal::Notification done;
  };
  const auto answers = std::make_shared<Answers>(size());
  for (size_t i = 0; i < size(); ++i) {
    part(i).ReleaseAsync([answers, i](ReleaseOutcome outcome) {
      answers->outcomes[i] = outcome;
      if (answers->missing.fetch_sub(1) == 1) answers->done.Notify();
    });
  }
  if (internal::OnLibraryThread()) return ReleaseOutcome::kUnknown;
  answers->done.WaitForNotification();
  for (const ReleaseOutcome worst : {ReleaseOutcome::kAlreadyGone, ReleaseOutcome::kUnknown}) {
    const auto& outcomes = answers->outcomes;
    if (std::find(outcomes.begin(), outcomes.end(), worst) != outcomes.end()) return worst;
  }
  return ReleaseOutcome::kReleased;
}

LockState MultiGuard::state() const {
  if (size() == 0) return LockState::kReleased;
  LockState worst = LockState::kHeld;
  for (const Guard& guard : parts_->guards) {
    worst = std::max(worst, guard.state(), [](LockState a, LockState b) { return Severity(a) < Severity(b); });
  }
  return worst;
}

std::stop_token MultiGuard::stop_token() const {
  if (parts_ == nullptr) return {};
  for (const Guard& guard : parts_->guards) {
    if (guard.core_ != nullptr && guard.core_->Forked()) return guard.stop_token();
  }
  return parts_->any_ends;
}

EndCause MultiGuard::end_cause() const {
  EndCause ended = size() == 0 ? EndCause::kReleased : EndCause::kNotEnded;
  for (size_t i = 0; i < size(); ++i) {
    const EndCause cause = part(i).end_cause();
    if (cause == EndCause::kReleased) ended = cause;
    if (cause != EndCause::kReleased && cause != EndCause::kNotEnded) return cause;
  }
  return ended;
}

std::string MultiGuard::end_message() const {
  const EndCause cause = end_cause();
  if (cause == EndCause::kNotEnded) return "";
  for (size_t i = 0; i < size(); ++i) {
    if (part(i).end_cause() == cause) return part(i).end_message();
  }
  return "";
}

size_t MultiGuard::size() const { return parts_ == nullptr ? 0 : parts_->guards.size(); }
const Guard& MultiGuard::part(size_t i) const { return parts_->guards[i]; }
Guard& MultiGuard::part(size_t i) { return parts_->guards[i]; }

int64_t MultiGuard::valid_until() const {
  int64_t first_ns = size() == 0 ? 0 : part(0).valid_until();
  for (size_t i = 1; i < size(); ++i) first_ns = std::min(first_ns, part(i).valid_until());
  return first_ns;
}

Duration MultiGuard::time_left() const {
  Duration least = size() == 0 ? Duration::zero() : part(0).time_left();
  for (size_t i = 1; i < size(); ++i) least = std::min(least, part(i).time_left());
  return least;
}

Duration MultiGuard::waited() const { return size() == 0 ? Duration(0) : part(0).waited(); }

MultiLock::MultiLock(Client& client, LockSet locks) : core_(client.core_), locks_(std::move(locks)) {}

Result<MultiGuard> MultiLock::Lock(std::stop_token cancel) { return Wait(locks_.max_wait_, cancel); }
Result<MultiGuard> MultiLock::TryLock() { return Wait(Duration::zero(), {}); }
Result<MultiGuard> MultiLock::TryLockFor(Duration max_wait, std::stop_token cancel) { return Wait(max_wait, cancel); }

PendingLock MultiLock::LockAsync(MultiLockCallback callback) { return Start(locks_.max_wait_, std::move(callback)); }
PendingLock MultiLock::TryLockAsync(MultiLockCallback callback) { return Start(Duration::zero(), std::move(callback)); }
PendingLock MultiLock::TryLockForAsync(Duration max_wait, MultiLockCallback callback) {
  return Start(max_wait, std::move(callback));
}

template <class Leases>
Result<MultiGuard> MultiLock::GuardOf(const std::shared_ptr<Core>& core, Result<Leases> answer) {
  if (!answer.ok()) return answer.refusal();
  std::stop_token any_ends = answer->size() == 1 ? core->StopToken(answer->front()) : answer->front()->any.get_token();
  std::vector<Guard> guards;
  for (internal::LeasePtr& lease : *answer) guards.push_back(core->GuardOf(std::move(lease)));
  return MultiGuard(std::move(guards), std::move(any_ends));
}

PendingLock MultiLock::Start(std::optional<Duration> max_wait, MultiLockCallback callback) const {
  internal::AcquireCallback answered = [core = core_,
                                        tell = core_->ForProgram(std::move(callback))](Result<Leases> answer) mutable {
    Result<MultiGuard> guard = GuardOf(core, std::move(answer));
    if (tell) tell(std::move(guard));
  };
  if (IsAllowed(locks_.size())) return {core_, core_->Acquire(locks_.locks_, max_wait, std::move(answered))};
  core_->Refuse(std::move(answered), WrongSize(locks_.size()));
  return {};
}

Result<MultiGuard> MultiLock::Wait(std::optional<Duration> max_wait, const std::stop_token& cancel) const {
  if (internal::OnLibraryThread()) return internal::WouldDeadlock();
  if (cancel.stop_requested()) return internal::CancelledBefore();
  if (!IsAllowed(locks_.size())) return WrongSize(locks_.size());
  internal::Awaited<Result<Leases>> answer(core_->waiting());
  const internal::RequestPtr request = core_->Acquire(locks_.locks_, max_wait, answer.callback());
  const std::stop_callback on_cancel(cancel, [&] { core_->Cancel(request); });
  return GuardOf(core_, answer.Wait());
}

}  // namespace distlock
