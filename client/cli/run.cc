// SPDX-License-Identifier: Apache-2.0
//
// run: runs a command while a lock is held, and only then.

#include <distlock/admin.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "under_lock.h"

namespace distlock::cli {
namespace {

struct RunArgs {
  LockFlags lock;
  Supervision plan;
  std::string shell_line;
  int busy_code = kExitBusy;
};

// For people who look at what they run: cron would mail it each time.
void WarnOfPrivateStore(const Context& context) {
  constexpr std::chrono::seconds kPatience{1};
  ClientOptions options = ClientOptionsFor(context);
  options.connect_at_once = false;
  options.unreachable_timeout = options.call_timeout = kPatience;
  Client client(std::move(options));
  const auto status = Admin(client).Status();
  if (!status.ok() || status->store_url != "embedded") return;
  context.Warn(
      "the broker's store is its own (embedded): --once-per does not reach other machines, and ends with that store");
}

int Run(const Context& context, RunArgs& args, const std::vector<std::string>& command_line) {
  if (!args.shell_line.empty() && !command_line.empty()) {
    return context.Fail(UsageFailure("give either -c LINE or CMD ARGS, not both"));
  }
  if (args.lock.key.empty() && args.lock.more_keys.empty()) {
    return context.Fail(
        UsageFailure("KEY is required: distlockctl run KEY [flags] CMD ARGS, or -k KEY -k KEY for several"));
  }
  args.plan.command =
      args.shell_line.empty() ? command_line : std::vector<std::string>{"/bin/sh", "-c", args.shell_line};
  if (args.plan.command.empty()) {
    return context.Fail(UsageFailure("no command: distlockctl run KEY [flags] CMD ARGS, or -c LINE"));
  }
  const int exit_code = RunUnderLock(context, {.lock = args.lock, .plan = args.plan, .busy_code = args.busy_code});
  const bool is_watched = args.plan.verbose || ::isatty(STDERR_FILENO) == 1;
  if (args.lock.once_per && exit_code != kExitUnavailable && is_watched) WarnOfPrivateStore(context);
  return exit_code;
}

constexpr char kFooter[] =
    "From CMD on everything belongs to the command; -- in front of it is allowed, and needed after -k without KEY.\n"
    "The command inherits stdin, stdout and stderr, and gets DISTLOCK_KEY, DISTLOCK_NAMESPACE, DISTLOCK_TOKEN and\n"
    "DISTLOCK_HOLDER_ID. It runs in a process group of its own; run passes its signals on to that group. The lock is\n"
    "released when the command itself has ended; processes that it left in the background go on without it, unless\n"
    "--wait-group is given.\n\n"
    "Several locks (-k) are taken all or nothing, and the loss of one is the loss of all. The variables above\n"
    "describe the first lock; DISTLOCK_KEYS and DISTLOCK_TOKENS name all of them, one per line.\n\n"
    "Exit code: that of the command, or 128 + the signal that ended it; CODE of -E (1) if the lock was not\n"
    "granted; 75 if it was lost; 64 wrong usage; 69 broker or store unavailable; 77 denied; 126 and 127 as in a\n"
    "shell.\n\n"
    "Examples:\n"
    "  distlockctl run nightly -n /usr/local/bin/backup --full\n"
    "  distlockctl run report -n -q -E 0 --once-per 15m -- ./report   # in the crontab of several hosts: one runs it\n"
    "  distlockctl run deploy/web -w 10m --verbose ./deploy.sh\n"
    "  distlockctl run catalog -s ./search           # beside other readers; -x (default) is for writers\n"
    "  distlockctl run encode --limit 4 ./encode     # at most four at a time; all use the same limit\n"
    "  distlockctl run -k account/7 -k account/9 -- ./transfer\n"
    "  distlockctl run report -w 30s -E 99 -c 'make report | mail -s report team'\n"
    "  distlockctl run ledger --on-lost 'logger lock lost: $DISTLOCK_LOST_REASON' -- ./ledger";

}  // namespace

void AddRun(CLI::App& app, Context& context, const std::vector<std::string>& command_line) {
  auto* run = app.add_subcommand("run", "Run a command while holding a lock: run KEY [flags] CMD ARGS");
  auto args = std::make_shared<RunArgs>();
  AddLocksFlags(*run, args->lock);
  AddOncePerFlag(*run, args->lock);
  AddResumeFlag(*run, args->lock);
  run->add_option("-c,--command", args->shell_line, "Run this line with /bin/sh -c")->type_name("LINE");
  run->add_option("-E,--conflict-exit-code", args->busy_code,
                  "Exit code when another holds the lock or the wait ran out (default 1)")
      ->option_text("CODE")
      ->check(CLI::Range(0, 255));
  AddDurationFlag(
      *run, "--kill-after", [args](Millis value) { args->plan.kill_after = value; },
      "When the lock is lost, send SIGKILL this long after SIGTERM (default 5s)");
  run->add_option("--on-lost", args->plan.on_lost,
                  "Run LINE with /bin/sh -c when the lock is lost; it gets DISTLOCK_LOST_REASON and has 30s")
      ->type_name("LINE");
  run->add_flag("--wait-group", args->plan.wait_group,
                "Hold the lock until the processes that CMD left in the background have ended, too")
      ->option_text(" ");
  run->add_flag("--verbose", args->plan.verbose, "Print on stderr what happens to the lock");
  AddContextFlags(*run, context);
  run->footer(kFooter);
  run->callback([&context, args, &command_line] {
    context.command = [&context, args, &command_line] { return Run(context, *args, command_line); };
  });
}

}  // namespace distlock::cli
