// SPDX-License-Identifier: Apache-2.0
//
// Text made safe to send and to show. What a character is, distlock/wire/utf8.h says. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace distlock::contract {

// `text` with each byte that is not part of a character replaced by '?'. Text from the store or the system may have
// such bytes, and many clients cannot read a message with them.
std::string CleanText(std::string_view text);

// At most `max_bytes`, which are at least 3: a longer text is cut between two characters, with "..." behind it.
std::string Cut(std::string_view text, size_t max_bytes);

// For one line of a message: control bytes escaped, cut between two characters after at most `max_bytes`.
std::string Shorten(std::string_view text, size_t max_bytes);

}  // namespace distlock::contract
