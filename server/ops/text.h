// SPDX-License-Identifier: Apache-2.0
//
// Makes text safe to print. Pure functions; any thread. Brings the functions of text/text.h into this module.
#pragma once

#include <string>
#include <string_view>

#include "text/text.h"

namespace distlock::ops {

using text::Cat;
using text::Contains;
using text::Split;

// A JSON string in double quotes. Control bytes, quotes, backslashes and marks that reorder or break lines are escaped
// as \uXXXX; bytes that are not UTF-8 become \ufffd.
std::string JsonQuoted(std::string_view text);

// Returns a plain word unchanged, anything else as JsonQuoted does: safe as the value in key=value.
std::string WordOrQuoted(std::string_view text);

// True for UTF-8 without any character that JsonQuoted escapes as \uXXXX.
bool IsShowable(std::string_view text);

}  // namespace distlock::ops
