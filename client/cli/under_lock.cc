// SPDX-License-Identifier: Apache-2.0
#include "under_lock.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <cerrno>

namespace distlock::cli {
namespace {

// Fills in the command's environment. DISTLOCK_KEY and DISTLOCK_TOKEN are those of the first lock.
void Describe(const LockFlags& lock, const MultiGuard& guard, Supervision& plan) {
  const std::vector<std::string> keys = lock.Keys();
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < guard.size(); ++i) tokens.push_back(guard.token(i));
  const std::vector<std::pair<std::string, std::string>> env = {{"DISTLOCK_KEY", keys.front()},
                                                                {"DISTLOCK_KEYS", absl::StrJoin(keys, "\n")},
                                                                {"DISTLOCK_NAMESPACE", lock.name_space},
                                                                {"DISTLOCK_TOKEN", std::to_string(tokens.front())},
                                                                {"DISTLOCK_TOKENS", absl::StrJoin(tokens, "\n")},
                                                                {"DISTLOCK_HOLDER_ID", guard.part(0).holder_id()}};
  plan.env.insert(plan.env.end(), env.begin(), env.end());
}

int RunHolding(const Context& context, const UnderLock& what, MultiGuard guard, LockKeeper& keeper, Signals& signals,
               Watchdog& watchdog) {
  const auto waited = std::chrono::duration_cast<Millis>(guard.waited());
  what.plan.Say(absl::StrCat("got ", what.lock.Name(), " after ", FormatDuration(waited), ", token ", guard.token(0)),
                GrantedEvent(what.lock, guard));
  Describe(what.lock, guard, what.plan);
  const int exit_code = Supervisor(what.plan, guard, keeper, signals, watchdog).Run();
  watchdog.Disarm();
  if (exit_code == kExitLost && guard.end_cause() != EndCause::kNotEnded) return exit_code;
  const ReleaseOutcome outcome = guard.Release();
  what.plan.Say("release: " + OutcomeName(outcome), what.lock.Event("released", {{"outcome", OutcomeName(outcome)}}));
  // The lock had ended in the store before this process noticed: the last part of the command ran without it.
  if (outcome == ReleaseOutcome::kAlreadyGone) {
    return context.Fail(OwnFailure("LEASE_LOST", "the lock was gone before it was released", kExitLost));
  }
  return exit_code;
}

}  // namespace

int RunUnderLock(const Context& context, const UnderLock& what) {
  Signals signals;
  Watchdog watchdog;
  if (!watchdog.ok()) {
    return context.Fail(CannotStart(errno));
  }
  what.plan.context = &context;
  what.plan.lock = &what.lock;
  LockKeeper keeper(context, what.lock);
  auto outcome = keeper.Wait(signals, [&](const LockEvent& event) {
    if (event.kind != LockEvent::kQueued) return;
    what.plan.Say("waiting for " + QueuedAsText(what.lock, event.queued), QueuedEvent(what.lock, event.queued));
  });
  if (const auto* interrupted = std::get_if<LockKeeper::Interrupted>(&outcome)) {
    return kExitSignalBase + interrupted->signo;
  }
  if (const auto* failure = std::get_if<Failure>(&outcome)) {
    return FailToTake(context, what.lock, *failure, what.busy_code);
  }
  return RunHolding(context, what, std::move(std::get<MultiGuard>(outcome)), keeper, signals, watchdog);
}

}  // namespace distlock::cli
