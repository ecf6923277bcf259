// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 of short texts, many times a second. The algorithm is looked up once per process; OpenSSL's one-shot
// functions look it up at each call. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace distlock::contract {

std::array<uint8_t, 32> Sha256(std::string_view bytes);

}  // namespace distlock::contract
