// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 of a few bytes, many times a second: the algorithm is looked up once per process, not once per call as by OpenSSL's own
// one-shot functions. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace distlock::contract {

std::array<uint8_t, 32> Sha256(std::string_view bytes);

}  // namespace distlock::contract
