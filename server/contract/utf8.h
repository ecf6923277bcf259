// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 as the contract means it: no overlong forms, no surrogates, nothing above U+10FFFF. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace distlock::contract {

bool IsUtf8(std::string_view text);

// `text` with each byte that is not part of a character replaced by '?'. What comes from the store or the system may
// hold such bytes, and many clients cannot read a message with them.
std::string CleanText(std::string_view text);

// For one line of a message: control bytes escaped, cut at a character's edge after at most `max_bytes`.
std::string Shorten(std::string_view text, size_t max_bytes);

}  // namespace distlock::contract
