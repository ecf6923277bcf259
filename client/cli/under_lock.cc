// SPDX-License-Identifier: Apache-2.0
#include "under_lock.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace distlock::cli {
namespace {

// Fills in the command's environment. DISTLOCK_KEY and DISTLOCK_TOKEN are those of the first lock.
void Describe(const LockFlags& lock, const MultiGuard& guard, Supervision& plan) {
  plan.keys = lock.Keys();
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < guard.size(); ++i) tokens.push_back(guard.token(i));
  const std::vector<std::pair<std::string, std::string>> env = {
      {"DISTLOCK_KEY", plan.keys.front()},
      {"DISTLOCK_KEYS", absl::StrJoin(plan.keys, "\n")},
      {"DISTLOCK_NAMESPACE", lock.name_space.empty() ? "default" : lock.name_space},
      {"DISTLOCK_TOKEN", std::to_string(tokens.front())},
      {"DISTLOCK_TOKENS", absl::StrJoin(tokens, "\n")},
      {"DISTLOCK_HOLDER_ID", guard.part(0).holder_id()}};
  plan.env.insert(plan.env.end(), env.begin(), env.end());
}

int RunHolding(const UnderLock& what, MultiGuard guard, LockKeeper& keeper, Signals& signals, Watchdog& watchdog) {
  what.plan.verbose(absl::StrCat("got ", what.lock.Name(), " after ",
                                 FormatDuration(std::chrono::duration_cast<Millis>(guard.waited())), ", token ",
                                 guard.token(0)));
  if (!what.granted(guard)) return kExitInternal;
  Describe(what.lock, guard, what.plan);
  const int exit_code = Supervisor(what.plan, guard, keeper, signals, watchdog).Run();
  watchdog.Disarm();
  if (exit_code == kExitLost && guard.end_cause() != EndCause::kNotEnded) return exit_code;
  const ReleaseOutcome outcome = guard.Release();
  what.plan.verbose("release: " + OutcomeName(outcome));
  // The lock had ended in the store before this process noticed: the last part of the command ran without it.
  if (outcome == ReleaseOutcome::kAlreadyGone) {
    std::fprintf(stderr, "distlockctl: the lock was gone before it was released\n");
    return kExitLost;
  }
  return exit_code;
}

}  // namespace

int RunUnderLock(const Context& context, const UnderLock& what) {
  Signals signals;
  Watchdog watchdog;
  if (!watchdog.ok()) {
    std::fprintf(stderr, "distlockctl: cannot start a process: %s\n", std::strerror(errno));
    return kExitInternal;
  }
  LockKeeper keeper(context, what.lock);
  auto outcome = keeper.Wait(signals, [&](const LockEvent& event) {
    if (event.kind == LockEvent::kQueued) {
      what.plan.verbose(absl::StrCat("waiting for ", what.lock.Name(), ", ", event.queued.position, " ahead",
                                     event.queued.holders.empty() ? "" : ", ",
                                     event.queued.holders.empty() ? "" : HeldBy(event.queued.holders.front())));
    }
  });
  if (const auto* interrupted = std::get_if<LockKeeper::Interrupted>(&outcome)) {
    return kExitSignalBase + interrupted->signo;
  }
  if (const auto* failure = std::get_if<Failure>(&outcome)) {
    context.Fail(*failure);
    return failure->exit_code == kExitBusy ? what.busy_code : failure->exit_code;
  }
  return RunHolding(what, std::move(std::get<MultiGuard>(outcome)), keeper, signals, watchdog);
}

}  // namespace distlock::cli
