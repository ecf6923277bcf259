// SPDX-License-Identifier: Apache-2.0
//
// run: a command that runs while a lock is held, and only then.

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
  bool verbose = false;
};

int Run(const Context& context, RunArgs& args, const std::vector<std::string>& command_line) {
  if (!args.shell_line.empty() && !command_line.empty()) {
    return context.Fail(UsageFailure("give either -c LINE or -- CMD ARGS, not both"));
  }
  if (args.lock.key.empty() && args.lock.more_keys.empty()) {
    return context.Fail(
        UsageFailure("KEY is required: distlockctl run KEY [flags] -- CMD ARGS, or -k KEY -k KEY for several"));
  }
  args.plan.command =
      args.shell_line.empty() ? command_line : std::vector<std::string>{"/bin/sh", "-c", args.shell_line};
  if (args.plan.command.empty()) {
    return context.Fail(UsageFailure("no command: distlockctl run KEY [flags] -- CMD ARGS, or -c LINE"));
  }
  args.plan.verbose = [&](std::string_view line) {
    if (args.verbose) context.Note(line);
  };
  return RunUnderLock(context, {.lock = args.lock, .plan = args.plan, .busy_code = args.busy_code});
}

constexpr char kFooter[] =
    "The command gets DISTLOCK_KEY, DISTLOCK_NAMESPACE, DISTLOCK_TOKEN and DISTLOCK_HOLDER_ID, and our stdin, stdout "
    "and\n"
    "stderr; it runs in its own process group, to which our signals are passed on. The lock is given back when the\n"
    "command itself has ended, whatever it left running in the background.\n\n"
    "Several locks (-k) are taken all or nothing, and the loss of one is the loss of all. The variables above are the\n"
    "first one's; DISTLOCK_KEYS and DISTLOCK_TOKENS name all, one a line.\n\n"
    "Exit code: the command's own, or 128 + the signal that ended it; -E CODE (1) if the lock was not got; 75 if it "
    "was\n"
    "lost; 64 wrong usage; 69 broker or store unavailable; 77 denied; 126 and 127 as in a shell.\n\n"
    "Examples:\n"
    "  distlockctl run nightly -n -- /usr/local/bin/backup --full\n"
    "  distlockctl run deploy/web -w 10m --verbose -- ./deploy.sh\n"
    "  distlockctl run catalog -s -- ./search        # beside other readers; a writer: -x, the default\n"
    "  distlockctl run encode --limit 4 -- ./encode  # at most four at a time; everybody names the same limit\n"
    "  distlockctl run -k account/7 -k account/9 -- ./transfer\n"
    "  distlockctl run report -w 30s -E 99 -c 'make report | mail -s report team'\n"
    "  distlockctl run ledger --on-lost 'logger lock lost: $DISTLOCK_LOST_REASON' -- ./ledger";

}  // namespace

void AddRun(CLI::App& app, Context& context, const std::vector<std::string>& command_line) {
  auto* run = app.add_subcommand("run", "Run a command while holding a lock: run KEY [flags] -- CMD ARGS");
  auto args = std::make_shared<RunArgs>();
  AddLocksFlags(*run, args->lock);
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
