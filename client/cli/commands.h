// SPDX-License-Identifier: Apache-2.0
//
// One function per group of commands: each adds its subcommands to the command line and, when one of them is named,
// sets context.command. Nothing is done before that is called. Both arguments must outlive the parsing and the command.
#pragma once

#include <string>
#include <vector>

#include "context.h"

namespace distlock::cli {

// `command_line`: what stands after "--", not touched by the parser.
void AddRun(CLI::App& app, Context& context, const std::vector<std::string>& command_line);
void AddElect(CLI::App& app, Context& context, const std::vector<std::string>& command_line);
void AddHold(CLI::App& app, Context& context);
void AddLeaseCommands(CLI::App& app, Context& context);    // acquire, renew, release
void AddInspectCommands(CLI::App& app, Context& context);  // show, ls, watch
void AddBrokerCommands(CLI::App& app, Context& context);   // status, drain, force-release
void AddTop(CLI::App& app, Context& context);
void AddCompletion(CLI::App& app, Context& context);

}  // namespace distlock::cli
