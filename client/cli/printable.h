// SPDX-License-Identifier: Apache-2.0
//
// Makes text that other users chose safe for a terminal. Pure, any thread.
#pragma once

#include <string>
#include <string_view>

namespace distlock::cli {

// Replaces control characters by '?', so that a key, a label or a message cannot send an escape sequence to the
// terminal or forge a line of output. Everything else stays as it is.
std::string Printable(std::string_view text);

}  // namespace distlock::cli
