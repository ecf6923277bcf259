// SPDX-License-Identifier: Apache-2.0
#include "supervisor.h"

#include <absl/strings/str_cat.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "exit_code.h"

namespace distlock::cli {
namespace {

// --on-lost notifies somebody, which takes seconds; a command that hangs must not delay the end for ever.
constexpr auto kOnLostPatience = std::chrono::seconds(30);

// The kernel does not report when the last process of a group ends, so the group is polled after its leader's end.
constexpr auto kBetweenLooksAtGroup = std::chrono::milliseconds(20);

// The watchdog ends the command before the last promise that it knows of does. A promise grows each second or later.
constexpr auto kBetweenPromises = std::chrono::milliseconds(500);

}  // namespace

Supervisor::Supervisor(const Supervision& plan, const MultiGuard& guard, LockKeeper& keeper, Signals& signals,
                       Watchdog& watchdog)
    : plan_(plan), guard_(guard), keeper_(keeper), signals_(signals), watchdog_(watchdog), relay_(watchdog) {}

int Supervisor::Run() {
  int exit_code = kExitInternal;
  if (!Start(&exit_code)) return exit_code;
  while (!Done()) {
    WaitForEvent();
    TakeChildren();
    LookAtLock();
    TakeSignals();
  }
  terminal_.TakeBack(child_.pid(), WIFSIGNALED(*end_status_));
  return lost_ ? kExitLost : ExitCodeOfStatus(*end_status_);
}

bool Supervisor::Start(int* exit_code) {
  if (plan_.wait_group) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!child_.Fork({plan_.command, plan_.env, signals_.original_mask()})) {
    *exit_code = plan_.context->Fail(CannotStart(errno));
    return false;
  }
  watchdog_.Promise(guard_.valid_until());
  watchdog_.Arm(child_.pid(), plan_.kill_after);
  terminal_.GiveAtStart(child_.pid());
  keeper_.WatchEnd(guard_);
  const int error = child_.Go();
  if (error == 0) return true;
  terminal_.TakeBack(child_.pid(), false);
  *exit_code = plan_.context->Fail(OwnFailure("CANNOT_RUN",
                                              absl::StrCat("cannot run ", plan_.command[0], ": ", std::strerror(error)),
                                              error == ENOENT ? kExitNotFound : kExitNotExecutable));
  return false;
}

void Supervisor::WaitForEvent() {
  watchdog_.Promise(guard_.valid_until());
  auto wait = lost_ ? std::chrono::milliseconds(-1) : kBetweenPromises;
  if (!lost_ && end_status_) wait = kBetweenLooksAtGroup;
  if (lost_) {
    wait = end_status_ && child_.GroupAlive()
               ? kBetweenLooksAtGroup
               : std::chrono::ceil<std::chrono::milliseconds>((killed_ ? on_lost_until_ : kill_at_) - Clock::now());
    wait = std::max(wait, std::chrono::milliseconds(0));
    // SIGKILL is sent, --on-lost has ended, and the command's status is missing: only SIGCHLD can change anything.
    if (killed_ && !on_lost_.running() && !end_status_) wait = std::chrono::milliseconds(-1);
  }
  if (relay_.holds_back()) wait = SignalRelay::kBetweenLooks;
  pollfd fds[2] = {{keeper_.fd(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
  ::poll(fds, 2, static_cast<int>(wait.count()));
  keeper_.Clear();
  while (const auto event = keeper_.TakeEvent()) {
    if (event->kind == LockEvent::kDraining) {
      plan_.Say(absl::StrCat("the broker goes down in ", FormatDuration(event->time_left)),
                plan_.lock->Event("draining", {{"time_left_ms", event->time_left.count()}}));
    }
  }
}

void Supervisor::TakeChildren() {
  while (const auto reaped = ReapAny()) {
    on_lost_.Note(*reaped);
    if (!child_.Note(*reaped)) continue;
    if (WIFSTOPPED(reaped->status)) {
      FollowStop(WSTOPSIG(reaped->status));
      continue;
    }
    end_status_ = reaped->status;
    // The lock may have ended before the command without a report yet: compare its deadline with the clock now.
    if (!lost_ && !LockHeld()) Lose();
  }
}

void Supervisor::TakeSignals() {
  while (const auto signo = signals_.Take()) {
    if (*signo == SIGCHLD) {
      TakeChildren();
      continue;
    }
    if (*signo == SIGTSTP) stop_was_asked_ = true;
    if (*signo == SIGCONT) {
      LookAtLock();
      terminal_.GiveAgain(child_.pid());
    }
    if (!relay_.HoldBack(*signo, signals_.sender())) PassOn(*signo);
  }
  for (const int signo : relay_.Due(child_)) PassOn(signo);
}

void Supervisor::PassOn(int signo) const {
  // After the command's end only the handling of a loss still signals the group, unless its rest is waited for.
  if (child_.running() || plan_.wait_group) child_.SignalGroup(signo);
}

void Supervisor::FollowStop(int signo) {
  const bool wants_terminal = signo == SIGTTIN || signo == SIGTTOU;
  if (wants_terminal && terminal_.Give(child_.pid())) {
    child_.SignalGroup(SIGCONT);
    return;
  }
  // A SIGSTOP, or a stop that no terminal sent, stops only the command: distlockctl goes on renewing the lock.
  if (signo == SIGSTOP || (!terminal_.present() && !stop_was_asked_)) return;
  stop_was_asked_ = false;
  const bool stopped = StopAsBy(signo);
  LookAtLock();
  if (wants_terminal && !terminal_.Give(child_.pid())) {
    // The shell's `fg` brings SIGCONT and the terminal. A job that no shell looks after never gets it: as the kernel
    // does for such jobs, end it, for it would be stopped again each time it goes on.
    if (stopped) return;
    plan_.context->Warn("the command asks at the terminal, which this job in the background cannot get: SIGHUP");
    child_.SignalGroup(SIGHUP);
  }
  terminal_.GiveAgain(child_.pid());
  child_.SignalGroup(SIGCONT);
}

bool Supervisor::LockHeld() const {
  const LockState state = guard_.state();
  return state == LockState::kHeld || state == LockState::kAtRisk;
}

void Supervisor::LookAtLock() {
  if (!lost_ && !Done() && !LockHeld()) Lose();
  if (!lost_) return;
  if (!killed_ && Clock::now() >= kill_at_) {
    killed_ = true;
    if (!end_status_ || child_.GroupAlive()) {
      plan_.Say("the command is still there: SIGKILL", plan_.lock->Event("killed"));
    }
    child_.SignalGroup(SIGKILL);
  }
  if (on_lost_.running() && Clock::now() >= on_lost_until_) on_lost_.SignalGroup(SIGKILL);
}

void Supervisor::Lose() {
  lost_ = true;
  kill_at_ = Clock::now() + plan_.kill_after;
  on_lost_until_ = Clock::now() + kOnLostPatience;
  const std::string reason = EndReason(guard_);
  const std::string cause = guard_.end_message();
  const std::string which = guard_.size() == 1 ? "the lock" : LostKey();
  Failure lost = OwnFailure(
      "LEASE_LOST", absl::StrCat(which, " is lost (", reason, ")", cause.empty() ? "" : ": ", cause), kExitLost);
  lost.lost_reason = reason;
  // Printed without --verbose and with --quiet too: the exit code alone does not say why.
  plan_.context->Fail(lost);
  child_.SignalGroup(SIGTERM);
  child_.SignalGroup(SIGCONT);
  if (plan_.on_lost.empty()) return;
  CommandLine notice{{"/bin/sh", "-c", plan_.on_lost}, plan_.env, signals_.original_mask(), /*stdin_from_null=*/true};
  notice.extra_env.emplace_back("DISTLOCK_LOST_REASON", reason);
  const int error = on_lost_.Fork(notice) ? on_lost_.Go() : errno;
  if (error != 0) plan_.context->Warn(absl::StrCat("cannot run --on-lost: ", std::strerror(error)));
}

std::string Supervisor::LostKey() const {
  const std::vector<std::string> keys = plan_.lock->Keys();
  for (size_t i = 0; i < guard_.size() && i < keys.size(); ++i) {
    const LockState state = guard_.part(i).state();
    if (state == LockState::kLost || state == LockState::kReleased) return keys[i];
  }
  return "a lock";
}

bool Supervisor::Done() {
  if (!end_status_) return false;
  if (lost_) return LossSettled();
  return !plan_.wait_group || !child_.GroupAlive();
}

bool Supervisor::LossSettled() {
  if (on_lost_.running()) return false;
  // After SIGKILL the group is as good as ended: a process that is still there waits in the kernel.
  return killed_ || !child_.GroupAlive();
}

}  // namespace distlock::cli
