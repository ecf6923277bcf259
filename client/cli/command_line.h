// SPDX-License-Identifier: Apache-2.0
//
// Finds where the command of `run` and `elect` begins, because everything from there on belongs to that command and
// not to distlockctl. Knows which flags take a value from the parser's own options.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace distlock::cli {

// `run [flags] KEY [flags] [--] CMD ARGS`: takes CMD and ARGS, with any "--" in front of them, from the end of `args`,
// and puts them into `command`. Other subcommands keep their arguments. Returns what is wrong when a word may be a KEY
// as well as the command: `run -k A WORD ...` without "--".
std::optional<std::string> TakeCommand(const CLI::App& app, std::vector<std::string>& args,
                                       std::vector<std::string>& command);

// Cuts "--owner=" into the flag and an empty value: the parser would take the next word for the value.
void SplitEmptyValues(std::vector<std::string>& args);

// Whether the argument is a flag whose value is the next argument: "-w", "--wait", "-nw"; not "-w5", "--wait=5".
bool TakesNextArgument(const CLI::App& command, const std::string& arg);

// nullptr when there is none of that name.
const CLI::App* FindSubcommand(const CLI::App& app, const std::string& name);

// "; did you mean run?" for a word that is near a command, or a flag of the command that was named; "" for others.
std::string DidYouMean(const CLI::App& app, const std::string& word);

// The index of the subcommand's name; args.size() when there is none.
size_t SubcommandIndex(const CLI::App& app, const std::vector<std::string>& args);

}  // namespace distlock::cli
