// SPDX-License-Identifier: Apache-2.0
//
// Which of a Cluster's slots a key belongs to. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace distlock::store {

using Slot = uint16_t;

inline constexpr size_t kSlots = 16384;

// By the first {tag} in the key, if there is one that is not empty; else by the whole key.
Slot SlotOf(std::string_view key);

// A short tag, braces included, of a slot: always the same one. Takes up to some milliseconds.
std::string TagOf(Slot slot);

}  // namespace distlock::store
