// SPDX-License-Identifier: Apache-2.0
//
// quorum-init and store: maintenance of a store as a whole. A running broker does it, so that this program needs
// neither the store nor its password.
#include <absl/strings/str_cat.h>
#include <distlock/admin.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.h"
#include "exit_code.h"

namespace distlock::cli {
namespace {

constexpr int kExitRefused = 78;  // EX_CONFIG, as distlockd's for a store that it cannot use

// `problem`: the broker's answer.
int Finish(const Context& context, const Result<std::string>& problem, const std::string& done, const Json& as_json) {
  if (!problem.ok()) return context.Fail(FailureFrom(context, problem.refusal()));
  if (!problem->empty()) return context.Fail(OwnFailure("REFUSED", *problem, kExitRefused));
  return context.Print(done, as_json) ? kExitOk : kExitInternal;
}

int Upgrade(const Context& context, int32_t to) {
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  return Finish(context, Admin(*client).UpgradeStore(to), absl::StrCat("brokers write the store in schema ", to),
                Json{{"event", "store_upgraded"}, {"schema", to}});
}

int Init(const Context& context, bool all_brokers_stopped) {
  if (const size_t brokers = context.Targets().size(); brokers > 1) {
    return context.Fail(
        UsageFailure(absl::StrCat("quorum-init is for the servers of one broker, and ", context.Target(), " are ",
                                  brokers, ": give --server only one, that has the new --redis")));
  }
  const auto [client, failed] = Open(context);
  if (!client) return failed;
  return Finish(context, Admin(*client).InitQuorum(all_brokers_stopped),
                "the servers of this broker are one quorum; it serves when its hold-off is over",
                Json{{"event", "quorum_made"}});
}

}  // namespace

void AddQuorumInit(CLI::App& app, Context& context) {
  auto* init = app.add_subcommand("quorum-init", "Make the broker's servers one quorum");
  auto stopped = std::make_shared<bool>(false);
  init->add_flag("--all-brokers-stopped", *stopped,
                 "All other brokers of these servers were stopped, as long ago as a lease may last (--max-ttl):\n"
                 "do not look for when they were there last")
      ->option_text(" ");
  AddContextFlags(*init, context);
  init->footer(
      "Needed when the servers of a quorum change, also to take a server from another quorum; the first start of a\n"
      "broker at new servers does the same by itself. Stop all brokers, start one with the new --redis, which grants\n"
      "nothing, and ask that one. It refuses until the longest ttl has passed since another broker was at these\n"
      "servers, up to a minute later, and while a lock is held. All servers must be reachable.\n"
      "Exit code: 0 they are one quorum, also from before; 69 a server cannot be reached; 78 refused.\n\n"
      "Examples:\n"
      "  distlockctl quorum-init\n"
      "  distlockctl quorum-init --all-brokers-stopped");
  init->callback([&context, stopped] { context.command = [&context, stopped] { return Init(context, *stopped); }; });
}

void AddStore(CLI::App& app, Context& context) {
  auto* store = app.add_subcommand("store", "Maintain the store");
  store->require_subcommand(1);
  store->footer(
      "Examples:\n"
      "  distlockctl store upgrade --to 2");
  auto* upgrade = store->add_subcommand("upgrade", "Raise the schema that brokers write in their store");
  auto to = std::make_shared<int32_t>(0);
  upgrade->add_option("--to", *to, "The schema to write from now on")->required()->check(CLI::PositiveNumber);
  AddContextFlags(*upgrade, context);
  upgrade->footer(
      "Brokers of two releases share a store as long as its schema is one that both read. Upgrade once all brokers\n"
      "are of the newer release and none is to go back: a broker that cannot read the new schema does not start any\n"
      "more. Any of the brokers does it. Refused while a broker that cannot read it was there within the last hour.\n"
      "All servers of the store must be reachable.\n"
      "Exit code: 0 the store is written so, also from before; 69 a server cannot be reached; 78 refused.\n\n"
      "Examples:\n"
      "  distlockctl store upgrade --to 2");
  upgrade->callback([&context, to] { context.command = [&context, to] { return Upgrade(context, *to); }; });
}

}  // namespace distlock::cli
