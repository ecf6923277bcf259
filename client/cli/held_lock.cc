// SPDX-License-Identifier: Apache-2.0
#include "held_lock.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "address.h"

namespace distlock::cli {
namespace {

constexpr auto kBetweenRequests = std::chrono::milliseconds(500);

}  // namespace

LockKeeper::LockKeeper(const Context& context, const LockFlags& flags, bool ends_with_process)
    : context_(context),
      flags_(flags),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      client_(Options(ends_with_process)) {}

LockKeeper::~LockKeeper() { on_end_.reset(); }

void LockKeeper::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof(one));
}

void LockKeeper::Clear() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(wake_fd_, &count, sizeof(count));
}

std::optional<LockEvent> LockKeeper::TakeEvent() {
  const std::lock_guard lock(mu_);
  if (events_.empty()) return std::nullopt;
  LockEvent first = std::move(events_.front());
  events_.pop_front();
  return first;
}

std::optional<LockKeeper::Answer> LockKeeper::TakeAnswer() {
  const std::lock_guard lock(mu_);
  return std::exchange(answer_, std::nullopt);
}

ClientOptions LockKeeper::Options(bool ends_with_process) {
  ClientOptions options = ClientOptionsFor(context_);
  options.ends_with_process = ends_with_process;
  options.unreachable_timeout = flags_.Patience(context_);
  options.on_draining = [this](Duration left) {
    const std::lock_guard lock(mu_);
    events_.push_back({LockEvent::kDraining, {}, std::chrono::duration_cast<Millis>(left)});
    Wake();
  };
  return options;
}

LockSet LockKeeper::Wanted() {
  LockOptions options = flags_.Options();
  options.on_queued = [this](const QueuedInfo& info) {
    const std::lock_guard lock(mu_);
    events_.push_back({LockEvent::kQueued, info, {}});
    Wake();
  };
  if (flags_.max_wait > Millis(0)) {
    options.max_wait = std::max<Duration>(*flags_.max_wait - (Clock::now() - since_), Millis(1));
  }
  LockSet wanted;
  wanted.MaxWait(options.max_wait);
  for (const std::string& key : flags_.Keys()) {
    if (flags_.limit > 0) {
      wanted.Permits(key, flags_.limit, std::max(flags_.permits, 1), options);
    } else {
      flags_.shared ? wanted.Shared(key, options) : wanted.Exclusive(key, options);
    }
  }
  return wanted;
}

void LockKeeper::Ask() {
  ask_again_.reset();
  pending_ = client_.MakeMultiLock(Wanted()).LockAsync([this](Answer answer) {
    const std::lock_guard lock(mu_);
    answer_ = std::move(answer);
    Wake();
  });
}

// Plans another request when broker or store cannot serve and the wait is not over. A wait without an end begins when a
// broker has the request, drains, or tells of a hold-off: before, more likely the address is wrong.
bool LockKeeper::AskAgain(const Refusal& refusal) {
  const bool no_broker = refusal.reason == RefusalReason::kUnreachable;
  const bool ends_by_itself =
      refusal.reason == RefusalReason::kDraining || refusal.reason == RefusalReason::kStoreHoldOff;
  if (!no_broker && !ends_by_itself && refusal.reason != RefusalReason::kStoreUnavailable &&
      refusal.reason != RefusalReason::kQuorumNotReached) {
    return false;
  }
  const auto at = Clock::now() + kBetweenRequests;
  const bool waits_on = flags_.max_wait ? at < since_ + *flags_.max_wait : was_queued_ || ends_by_itself;
  if (!waits_on || (no_broker && context_.connect_timeout_given)) return false;
  if (!std::exchange(told_of_outage_, true)) {
    context_.Warn(absl::StrCat("still waiting for ", flags_.Name(), ", although ", refusal.message));
  }
  ask_again_ = at;
  return true;
}

void LockKeeper::TakeSignals(Signals& signals) {
  while (const auto signo = signals.Take()) {
    if (*signo == SIGTSTP) StopAsBy(SIGTSTP);
    if (!EndsAProcess(*signo)) continue;
    if (!interrupted_by_) pending_.Cancel();
    interrupted_by_ = signo;
  }
}

// Until something has happened.
void LockKeeper::Await(Signals& signals, const std::function<void(const LockEvent&)>& on_event) {
  std::chrono::milliseconds left(-1);
  if (ask_again_) {
    left = std::chrono::ceil<std::chrono::milliseconds>(std::max(*ask_again_ - Clock::now(), Clock::duration::zero()));
  }
  pollfd fds[2] = {{wake_fd_, POLLIN, 0}, {signals.fd(), POLLIN, 0}};
  ::poll(fds, 2, static_cast<int>(left.count()));
  Clear();
  while (const auto event = TakeEvent()) {
    const bool queued = event->kind == LockEvent::kQueued;
    const auto own = queued ? HeldByOwnJob(flags_) : std::nullopt;
    if (own) context_.Warn(*own);
    was_queued_ = was_queued_ || queued;
    on_event(*event);
  }
}

LockKeeper::Outcome LockKeeper::Wait(Signals& signals, const std::function<void(const LockEvent&)>& on_event) {
  if (auto useless = UselessAddress(context_)) return *std::move(useless);
  since_ = Clock::now();
  Ask();
  while (true) {
    Await(signals, on_event);
    TakeSignals(signals);
    std::optional<Answer> answer = TakeAnswer();
    if (interrupted_by_ && (answer || ask_again_)) {
      // The grant may have left the broker before the cancel arrived.
      if (answer && answer->ok()) (*answer)->Release();
      return Interrupted{*interrupted_by_};
    }
    if (answer && (answer->ok() || !AskAgain(answer->refusal()))) return OutcomeOf(std::move(*answer));
    if (ask_again_ && Clock::now() >= *ask_again_) Ask();
  }
}

LockKeeper::Outcome LockKeeper::OutcomeOf(Answer answer) const {
  if (answer.ok()) return std::move(answer).value();
  return FailureFrom(context_, answer.refusal(), std::chrono::duration_cast<Millis>(Clock::now() - since_));
}

void LockKeeper::WatchEnd(const MultiGuard& guard) {
  on_end_.emplace(guard.stop_token(), [this] { Wake(); });
}

std::string HeldBy(const Holder& holder) {
  return absl::StrCat("held by ", holder.owner.empty() ? holder.holder_id : holder.owner);
}

std::string QueuedAsText(const LockFlags& lock, const QueuedInfo& queued) {
  return absl::StrCat(lock.Name(), ", ", queued.position, " ahead", queued.holders.empty() ? "" : ", ",
                      queued.holders.empty() ? "" : HeldBy(queued.holders.front()));
}

Json QueuedEvent(const LockFlags& lock, const QueuedInfo& queued) {
  std::vector<std::string> owners;
  for (const Holder& holder : queued.holders) owners.push_back(holder.owner);
  return lock.Event("queued", {{"position", queued.position}, {"holders", owners}});
}

Json GrantedEvent(const LockFlags& lock, const MultiGuard& guard) {
  return lock.Event("granted", {{"holder_id", guard.part(0).holder_id()},
                                {"token", guard.token(0)},
                                {"waited_ms", std::chrono::duration_cast<Millis>(guard.waited()).count()}});
}

std::string EndReason(const MultiGuard& guard) { return absl::AsciiStrToUpper(std::string(Name(guard.end_cause()))); }

std::string OutcomeName(ReleaseOutcome outcome) { return absl::AsciiStrToLower(std::string(Name(outcome))); }

}  // namespace distlock::cli
