// SPDX-License-Identifier: Apache-2.0
//
// distlockctl: parses the command line and runs one command.

#include <CLI/CLI.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "complete.h"
#include "context.h"
#include "exit_code.h"

namespace {

using distlock::cli::Context;

constexpr char kFooter[] =
    "Default address: unix:///run/distlock/distlock.sock if that socket exists, else 127.0.0.1:7420.\n"
    "distlockctl COMMAND --help explains each command, with examples:\n"
    "  distlockctl run nightly -n /usr/local/bin/backup\n"
    "  distlockctl show nightly\n\n"
    "Variables: DISTLOCK_SERVER the brokers; DISTLOCK_NAMESPACE the namespace of a bare KEY; DISTLOCK_TOKEN_FILE a\n"
    "file with the bearer token that is shown to them; DISTLOCK_TLS_CA, _CERT, _KEY, _SERVER_NAME as the flags of "
    "TLS.\n\n"
    "Exit codes: 0 done; 1 another holds the lock, or the token is not the newest; 64 wrong usage;\n"
    "69 broker or store unavailable, or without support for the request; 70 internal error; 75 the lock was lost;\n"
    "77 not allowed; 128 + n ended by signal n.";

// The parser reports a wrong usage before it has stored any flag, so this looks for -o json itself.
bool WantsJson(const std::vector<std::string>& args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "-ojson" || args[i] == "--output=json") return true;
    if ((args[i] == "-o" || args[i] == "--output") && i + 1 < args.size() && args[i + 1] == "json") return true;
  }
  return false;
}

int UsageError(const CLI::App& app, const CLI::ParseError& error, Context& context,
               const std::vector<std::string>& args) {
  std::string named = "distlockctl";
  for (const CLI::App* command : app.get_subcommands()) named += " " + command->get_name();
  context.json = WantsJson(args);
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  const bool no_command = app.get_subcommands().empty() && !rest.empty() && rest.front().rfind('-', 0) != 0;
  std::string what = no_command ? "'" + rest.front() + "' is not a command" : error.what();
  if (!rest.empty()) what += distlock::cli::DidYouMean(app, rest.front());
  return context.Fail(distlock::cli::UsageFailure(what + "; see " + named + " --help"));
}

// Nothing when a command is set; else the exit code.
std::optional<int> Parse(CLI::App& app, std::vector<std::string> args, std::vector<std::string>& command_line,
                         Context& context) {
  if (const auto problem = distlock::cli::TakeCommand(app, args, command_line)) {
    context.json = WantsJson(args);
    return context.Fail(distlock::cli::UsageFailure(*problem + "; see distlockctl run --help"));
  }
  distlock::cli::SplitEmptyValues(args);
  if (!args.empty() && args.front() == "help") {  // help COMMAND is COMMAND --help
    args.erase(args.begin());
    args.emplace_back("--help");
  }
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::Success& help) {
    std::ostringstream text;
    const int code = app.exit(help, text);
    return context.PrintText(text.str()) ? code : distlock::cli::kExitInternal;
  } catch (const CLI::ParseError& error) {
    return UsageError(app, error, context, args);
  }
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  distlock::SilenceGrpc();
  std::vector<std::string> args(argv + 1, argv + argc);
  std::vector<std::string> command_line;

  Context context;
  CLI::App app("Takes and shows locks of a distlock broker.", "distlockctl");
  app.require_subcommand(1);
  app.set_version_flag("--version", "distlockctl " DISTLOCK_VERSION, "Print the version");
  app.footer(kFooter);
  distlock::cli::AddContextFlags(app, context);
  distlock::cli::AddRun(app, context, command_line);
  distlock::cli::AddElect(app, context, command_line);
  distlock::cli::AddHold(app, context);
  distlock::cli::AddLeaseCommands(app, context);
  distlock::cli::AddInspectCommands(app, context);
  distlock::cli::AddWatch(app, context);
  distlock::cli::AddCheckToken(app, context);
  distlock::cli::AddBrokerCommands(app, context);
  distlock::cli::AddQuorumInit(app, context);
  distlock::cli::AddStore(app, context);
  distlock::cli::AddAccessCommands(app, context);
  distlock::cli::AddTop(app, context);
  distlock::cli::AddCompletion(app, context);
  distlock::cli::AddMan(app, context);

  const bool complete = !args.empty() && args.front() == "__complete";
  if (!complete) {
    if (const auto code = Parse(app, args, command_line, context)) return *code;
  }
  try {
    return complete ? distlock::cli::Complete(app, context, {args.begin() + 1, args.end()}) : context.command();
  } catch (const std::invalid_argument& error) {  // of the library: an address or a file cannot be used
    return context.Fail(distlock::cli::UsageFailure(error.what()));
  } catch (const std::system_error& error) {  // of the library: the machine has no thread or no descriptor left
    return context.Fail(distlock::cli::OwnFailure("CANNOT_START", error.what(), distlock::cli::kExitInternal));
  }
}
