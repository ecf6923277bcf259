// SPDX-License-Identifier: Apache-2.0
//
// One function per group of commands. Each adds its subcommands to the command line; a subcommand that is named there
// sets context.command, which main calls. The arguments must outlive the parsing and the command.
#pragma once

#include <string>
#include <vector>

#include "context.h"

namespace distlock::cli {

// `command_line`: the command and its arguments, which the parser does not see (command_line.h).
void AddRun(CLI::App& app, Context& context, const std::vector<std::string>& command_line);
void AddElect(CLI::App& app, Context& context, const std::vector<std::string>& command_line);
void AddHold(CLI::App& app, Context& context);
void AddLeaseCommands(CLI::App& app, Context& context);    // acquire, renew, downgrade, release
void AddInspectCommands(CLI::App& app, Context& context);  // show, ls
void AddWatch(CLI::App& app, Context& context);
void AddCheckToken(CLI::App& app, Context& context);
void AddBrokerCommands(CLI::App& app, Context& context);  // status, sessions, drain, force-release
void AddQuorumInit(CLI::App& app, Context& context);
void AddStore(CLI::App& app, Context& context);
void AddAccessCommands(CLI::App& app, Context& context);  // can-i, reload, token, policy
void AddTop(CLI::App& app, Context& context);
void AddCompletion(CLI::App& app, Context& context);
void AddMan(CLI::App& app, Context& context);

}  // namespace distlock::cli
