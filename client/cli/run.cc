// SPDX-License-Identifier: Apache-2.0
//
// run: a command that runs while a lock is held, and only then.

#include <absl/strings/str_cat.h>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "held_lock.h"
#include "supervisor.h"

namespace distlock::cli {
namespace {

struct RunArgs {
  LockFlags lock;
  Supervision plan;
  std::string shell_line;
  int busy_code = kExitBusy;
  bool verbose = false;
};

std::string WhoHolds(const QueuedInfo& info) {
  if (info.holders.empty()) return "";
  const std::string& owner = info.holders.front().owner;
  return absl::StrCat(", held by ", owner.empty() ? info.holders.front().holder_id : owner);
}

int RunUnderLock(RunArgs& args, Guard guard, LockKeeper& keeper, Signals& signals, Watchdog& watchdog) {
  args.plan.verbose(absl::StrCat("got ", args.lock.Name(), " after ",
                                 FormatDuration(std::chrono::duration_cast<Millis>(guard.waited())), ", token ",
                                 guard.token()));
  args.plan.env = {{"DISTLOCK_KEY", args.lock.key},
                   {"DISTLOCK_NAMESPACE", args.lock.name_space.empty() ? "default" : args.lock.name_space},
                   {"DISTLOCK_TOKEN", std::to_string(guard.token())},
                   {"DISTLOCK_HOLDER_ID", guard.holder_id()}};
  const int exit_code = Supervisor(args.plan, guard, keeper, signals, watchdog).Run();
  watchdog.Disarm();
  if (exit_code == kExitLost && guard.end_cause() != EndCause::kNotEnded) return exit_code;
  const ReleaseOutcome outcome = guard.Release();
  args.plan.verbose("release: " + OutcomeName(outcome));
  // The store had given it up before we knew: what the command did at its end was not under the lock.
  if (outcome == ReleaseOutcome::kAlreadyGone) {
    std::fprintf(stderr, "distlockctl: the lock was gone before it was given back\n");
    return kExitLost;
  }
  return exit_code;
}

int Run(const Context& context, RunArgs& args, const std::vector<std::string>& command_line) {
  if (!args.shell_line.empty() && !command_line.empty()) {
    return context.Fail(UsageFailure("give either -c LINE or -- CMD ARGS, not both"));
  }
  args.plan.command =
      args.shell_line.empty() ? command_line : std::vector<std::string>{"/bin/sh", "-c", args.shell_line};
  if (args.plan.command.empty()) {
    return context.Fail(UsageFailure("no command: distlockctl run KEY [flags] -- CMD ARGS, or -c LINE"));
  }
  args.plan.verbose = [&](std::string_view line) {
    if (args.verbose) context.Note(line);
  };

  Signals signals;
  Watchdog watchdog;
  if (!watchdog.ok()) {
    std::fprintf(stderr, "distlockctl: cannot start a process: %s\n", std::strerror(errno));
    return kExitInternal;
  }
  LockKeeper keeper(context, args.lock);
  auto outcome = keeper.Wait(signals, [&](const Remark& remark) {
    if (remark.kind == Remark::kQueued) {
      args.plan.verbose(absl::StrCat("waiting for ", args.lock.Name(), ", ", remark.queued.position, " ahead",
                                     WhoHolds(remark.queued)));
    }
  });
  if (const auto* interrupted = std::get_if<LockKeeper::Interrupted>(&outcome)) {
    return kExitSignalBase + interrupted->signo;
  }
  if (const auto* failure = std::get_if<Failure>(&outcome)) {
    context.Fail(*failure);
    return failure->exit_code == kExitBusy ? args.busy_code : failure->exit_code;
  }
  return RunUnderLock(args, std::move(std::get<Guard>(outcome)), keeper, signals, watchdog);
}

constexpr char kFooter[] =
    "The command gets DISTLOCK_KEY, DISTLOCK_NAMESPACE, DISTLOCK_TOKEN and DISTLOCK_HOLDER_ID, and our stdin, stdout "
    "and\n"
    "stderr; it runs in its own process group, to which our signals are passed on. The lock is given back when the\n"
    "command itself has ended, whatever it left running in the background.\n\n"
    "Exit code: the command's own, or 128 + the signal that ended it; -E CODE (1) if the lock was not got; 75 if it "
    "was\n"
    "lost; 64 wrong usage; 69 broker or store unavailable; 77 denied; 126 and 127 as in a shell.\n\n"
    "Examples:\n"
    "  distlockctl run nightly -n -- /usr/local/bin/backup --full\n"
    "  distlockctl run deploy/web -w 10m --verbose -- ./deploy.sh\n"
    "  distlockctl run catalog -s -- ./search        # beside other readers; a writer: -x, the default\n"
    "  distlockctl run encode --limit 4 -- ./encode  # at most four at a time; everybody names the same limit\n"
    "  distlockctl run report -w 30s -E 99 -c 'make report | mail -s report team'\n"
    "  distlockctl run ledger --on-lost 'logger lock lost: $DISTLOCK_LOST_REASON' -- ./ledger";

}  // namespace

void AddRun(CLI::App& app, Context& context, const std::vector<std::string>& command_line) {
  auto* run = app.add_subcommand("run", "Run a command while holding a lock: run KEY [flags] -- CMD ARGS");
  auto args = std::make_shared<RunArgs>();
  AddLockFlags(*run, args->lock);
  run->add_option("-c,--command", args->shell_line, "Run this line with /bin/sh -c")->type_name("LINE");
  run->add_option("-E,--conflict-exit-code", args->busy_code, "Exit code when the lock is held or the wait ran out")
      ->option_text("CODE")
      ->check(CLI::Range(0, 255));
  AddDurationFlag(
      *run, "--kill-after", [args](Millis value) { args->plan.kill_after = value; },
      "When the lock is lost: SIGKILL this long after SIGTERM (default 5s)");
  run->add_option("--on-lost", args->plan.on_lost,
                  "When the lock is lost, run this with /bin/sh -c, with DISTLOCK_LOST_REASON, for at most 30s")
      ->type_name("LINE");
  run->add_flag("--verbose", args->verbose, "Say on stderr what happens to the lock");
  AddContextFlags(*run, context);
  run->footer(kFooter);
  run->callback([&context, args, &command_line] {
    context.command = [&context, args, &command_line] { return Run(context, *args, command_line); };
  });
}

}  // namespace distlock::cli
