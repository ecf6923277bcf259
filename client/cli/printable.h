// SPDX-License-Identifier: Apache-2.0
//
// Text that others chose, made fit for a terminal. Pure, any thread.
#pragma once

#include <string>
#include <string_view>

namespace distlock::cli {

// Keys, labels and messages are other people's: an escape sequence in them must not reach the terminal, nor a line end that
// would let them write a line of ours. Control characters become '?'; everything else stays as it is.
std::string Printable(std::string_view text);

}  // namespace distlock::cli
