// SPDX-License-Identifier: Apache-2.0
//
// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace distlock::contract {

bool IsUtf8(std::string_view text);

// `text` with each byte that is not part of a character replaced by '?'. Text from the store or the system may have
// such bytes, and many clients cannot read a message with them.
std::string CleanText(std::string_view text);

// At most `max_bytes`, which are at least 3: a longer text is cut between two characters, with "..." behind it.
std::string Cut(std::string_view text, size_t max_bytes);

// For one line of a message: control bytes escaped, cut between two characters after at most `max_bytes`.
std::string Shorten(std::string_view text, size_t max_bytes);

}  // namespace distlock::contract
