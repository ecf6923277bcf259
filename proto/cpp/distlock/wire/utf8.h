// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 as protobuf's strings must have it (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. Pure;
// any thread.
#pragma once

#include <cstddef>
#include <string_view>

namespace distlock::wire {

// The length in bytes of the first character of `text`; 0 when `text` is empty or does not begin with a valid one.
size_t CharacterLength(std::string_view text);

bool IsUtf8(std::string_view text);

}  // namespace distlock::wire
