// SPDX-License-Identifier: Apache-2.0
//
// elect: campaigns to be the leader of a name, and runs a command while it leads; or shows who leads.

#include <absl/strings/str_cat.h>
#include <poll.h>

#include <CLI/CLI.hpp>

#include "commands.h"
#include "end_by_signal.h"
#include "under_lock.h"

namespace distlock::cli {
namespace {

struct ElectArgs {
  LockFlags lock;
  std::string value;
  Supervision plan;
  bool observe = false;
  bool leader = false;
};

Json EventJson(std::string_view event, const LockFlags& lock, const Json& more) {
  Json json{{"event", event}, {"namespace", lock.name_space}, {"name", lock.key}};
  json.update(more);
  return json;
}

bool PrintLeader(const Context& context, const LockFlags& lock, const std::optional<Leader>& leader) {
  if (!leader) return context.Print("no leader", EventJson("leader", lock, {{"leader", nullptr}}));
  const std::string since = FormatTime(leader->acquire_time);
  const Json json{{"value", leader->value},
                  {"owner", leader->owner},
                  {"holder_id", leader->holder_id},
                  {"token", leader->token},
                  {"since", since}};
  return context.Print(absl::StrCat("leader ", leader->value.empty() ? "-" : leader->value, "  owner ", leader->owner,
                                    "  token ", leader->token, "  since ", since),
                       EventJson("leader", lock, {{"leader", json}}));
}

int ShowLeader(const Context& context, const LockFlags& lock) {
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  auto looked = client->MakeElection(lock.key, "", {.lock_namespace = lock.name_space}).Look();
  if (!looked.ok()) return context.Fail(FailureFrom(context, looked.refusal()));
  if (!PrintLeader(context, lock, *looked)) return kExitInternal;
  return looked->has_value() ? kExitOk : kExitBusy;
}

int Observe(const Context& context, const LockFlags& lock) {
  Signals signals;
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  Election election = client->MakeElection(lock.key, "", {.lock_namespace = lock.name_space});
  // Observing goes on when no broker is found; the first time it is to say so.
  if (const auto first = election.Look(); !first.ok() && !first.refusal().cause.empty()) {
    return context.Fail(FailureFrom(context, first.refusal()));
  }
  int exit_code = kExitOk;
  EndBySignal end(signals);
  const Refusal why = election.Observe(
      [&](const std::optional<Leader>& leader) {
        if (PrintLeader(context, lock, leader)) return;
        exit_code = kExitInternal;
        end.End();
      },
      end.token());
  return why.reason == RefusalReason::kCancelled ? exit_code : context.Fail(FailureFrom(context, why));
}

bool PrintElected(const Context& context, const ElectArgs& args, const MultiGuard& guard) {
  return context.Print(
      absl::StrCat("elected: ", args.lock.Name(), ", token ", guard.token(0)),
      EventJson("elected", args.lock,
                {{"value", args.value}, {"holder_id", guard.part(0).holder_id()}, {"token", guard.token(0)}}));
}

bool Leads(const MultiGuard& guard) {
  const LockState state = guard.state();
  return state == LockState::kHeld || state == LockState::kAtRisk;
}

// Leads until a signal or the end of the term.
int Lead(const Context& context, const ElectArgs& args, MultiGuard guard, LockKeeper& keeper, Signals& signals) {
  bool wanted_to_end = !PrintElected(context, args, guard);
  int exit_code = wanted_to_end ? kExitInternal : kExitOk;
  keeper.WatchEnd(guard);
  while (!wanted_to_end && Leads(guard)) {
    pollfd fds[2] = {{keeper.fd(), POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    ::poll(fds, 2, -1);
    keeper.Clear();
    while (const auto signo = signals.Take()) {
      if (*signo == SIGTSTP) StopAsBy(SIGTSTP);
      wanted_to_end = wanted_to_end || EndsAProcess(*signo);
    }
  }
  if (!Leads(guard)) {
    const std::string message = guard.end_message();
    context.Print(absl::StrCat("lost: ", EndReason(guard), message.empty() ? "" : ", ", message),
                  EventJson("lost", args.lock, {{"reason", EndReason(guard)}, {"message", message}}));
    return kExitLost;
  }
  const ReleaseOutcome outcome = guard.Release();
  const bool printed = context.Print("resigned: " + OutcomeName(outcome),
                                     EventJson("resigned", args.lock, {{"outcome", OutcomeName(outcome)}}));
  if (outcome == ReleaseOutcome::kAlreadyGone) return kExitLost;
  return printed ? exit_code : kExitInternal;
}

int Campaign(const Context& context, const ElectArgs& args) {
  Signals signals;
  LockKeeper keeper(context, args.lock);
  auto outcome = keeper.Wait(signals, [](const LockEvent&) {});
  if (const auto* interrupted = std::get_if<LockKeeper::Interrupted>(&outcome)) {
    return kExitSignalBase + interrupted->signo;
  }
  if (const auto* failure = std::get_if<Failure>(&outcome)) return FailToTake(context, args.lock, *failure);
  return Lead(context, args, std::move(std::get<MultiGuard>(outcome)), keeper, signals);
}

int Elect(const Context& context, ElectArgs& args, const std::vector<std::string>& command_line) {
  if ((args.observe || args.leader) && !command_line.empty()) {
    return context.Fail(UsageFailure("--observe and --leader only show who leads: they take no command"));
  }
  if (args.leader) return ShowLeader(context, args.lock);
  if (args.observe) return Observe(context, args.lock);
  if (args.lock.metadata.count(kElectionValue) > 0) {
    return context.Fail(
        UsageFailure("--metadata must not set distlock.election, which others see as the leader's value: use --value"));
  }
  args.lock.metadata[kElectionValue] = args.value;
  if (command_line.empty()) return Campaign(context, args);
  args.plan.command = command_line;
  return RunUnderLock(context, {.lock = args.lock, .plan = args.plan});
}

constexpr char kFooter[] =
    "The leader is the holder of the lock NAME; others see its value. Without a command, elect leads until a\n"
    "signal; it prints elected, and at the end resigned or lost. With a command, elect runs it while it leads, as\n"
    "run does, and ends it when leadership is lost. The command passes DISTLOCK_TOKEN to the resources that the\n"
    "leader changes.\n\n"
    "Exit code: that of the command, or 0 after resigning; 75 leadership lost; 1 another leads (-n, -w), or with\n"
    "--leader nobody leads; 128 + the signal that came before the election.\n\n"
    "Examples:\n"
    "  distlockctl elect scheduler --value 10.0.0.7:9000 ./scheduler\n"
    "  distlockctl elect scheduler --leader -o json | jq -r .leader.value\n"
    "  distlockctl elect scheduler --observe";

}  // namespace

void AddElect(CLI::App& app, Context& context, const std::vector<std::string>& command_line) {
  auto* elect = app.add_subcommand("elect", "Campaign to be the leader of a name, or see who leads");
  auto args = std::make_shared<ElectArgs>();
  const CLI::Option* const name =
      elect->add_option("NAME", args->lock.key, "Name of the election, and of its lock: NAME, or NAMESPACE:NAME")
          ->required()
          ->option_text(" ");
  AddNamespaceFlag(*elect, args->lock.name_space, "Namespace of the election");
  elect->parse_complete_callback([args, name] { ReadNames(args->lock, name); });
  elect->add_option("--value", args->value, "Text that others see while this candidate leads, such as its address")
      ->type_name("VALUE");
  auto* observe = elect->add_flag("--observe", args->observe, "Print who leads, and each change, until a signal");
  elect->add_flag("--leader", args->leader, "Print who leads, and exit")->excludes(observe)->option_text(" ");
  AddWaitAndLeaseFlags(*elect, args->lock);
  AddResumeFlag(*elect, args->lock);
  AddDurationFlag(
      *elect, "--kill-after", [args](Millis value) { args->plan.kill_after = value; },
      "When leadership is lost, send the command SIGKILL this long after SIGTERM (default 5s)");
  elect
      ->add_option("--on-lost", args->plan.on_lost,
                   "Run LINE with /bin/sh -c when leadership is lost; it gets DISTLOCK_LOST_REASON and has 30s")
      ->type_name("LINE");
  elect
      ->add_flag("--wait-group", args->plan.wait_group,
                 "Lead until the processes that CMD left in the background have ended, too")
      ->option_text(" ");
  elect->add_flag("--verbose", args->plan.verbose, "Print on stderr what happens to the lock");
  AddContextFlags(*elect, context);
  elect->footer(kFooter);
  elect->callback([&context, args, &command_line] {
    context.command = [&context, args, &command_line] { return Elect(context, *args, command_line); };
  });
}

}  // namespace distlock::cli
