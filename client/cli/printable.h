// SPDX-License-Identifier: Apache-2.0
//
// Makes text that other users chose safe for a terminal. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace distlock::cli {

// Replaces control characters and bytes that are not UTF-8 by '?', so that a key, a label or a message cannot send an
// escape sequence to the terminal or forge a line of output. Characters that show nothing, or turn the direction of the
// text, become visible as "<U+202E>", so that no name looks like another. Everything else stays as it is.
std::string Printable(std::string_view text);

// How many columns of a terminal the text takes: none for a combining character, two for a wide one.
size_t DisplayWidth(std::string_view text);

// Printable(text), padded with spaces to this many columns.
std::string Column(std::string_view text, size_t width);

}  // namespace distlock::cli
