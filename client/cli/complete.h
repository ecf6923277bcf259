// SPDX-License-Identifier: Apache-2.0
//
// Completes the next word of a command line. The scripts of all shells ask for it, so that they know no flag
// themselves.
#pragma once

#include <string>
#include <vector>

#include "context.h"

namespace distlock::cli {

// `words`: those after "distlockctl", the last one as far as it is typed. Prints first "words", "files", or "command N"
// (another command begins at word N, "distlockctl" being word 0), then one candidate a line, with a tab in front of
// what it means. Asks the broker for the names of held locks, for half a second at most. Returns the exit code.
int Complete(const CLI::App& app, Context& context, std::vector<std::string> words);

}  // namespace distlock::cli
