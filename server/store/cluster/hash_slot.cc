// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/hash_slot.h"

#include <array>

namespace distlock::store {
namespace {

// CRC-16/XMODEM, as the Cluster specification asks for.
constexpr uint16_t kPolynomial = 0x1021;

constexpr std::array<uint16_t, 256> MakeTable() {
  std::array<uint16_t, 256> table{};
  for (size_t byte = 0; byte < table.size(); ++byte) {
    auto crc = static_cast<uint16_t>(byte << 8);
    for (int bit = 0; bit < 8; ++bit) {
      crc = static_cast<uint16_t>((crc & 0x8000) != 0 ? (crc << 1) ^ kPolynomial : crc << 1);
    }
    table[byte] = crc;
  }
  return table;
}

uint16_t Crc16(std::string_view text) {
  static constexpr auto kTable = MakeTable();
  uint16_t crc = 0;
  for (const char c : text) {
    crc = static_cast<uint16_t>((crc << 8) ^ kTable[((crc >> 8) ^ static_cast<uint8_t>(c)) & 0xff]);
  }
  return crc;
}

}  // namespace

Slot SlotOf(std::string_view key) {
  const size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  return Crc16(key) % kSlots;
}

std::string TagOf(Slot slot) {
  static constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  for (uint32_t number = 0;; ++number) {
    std::string text;
    for (uint32_t rest = number;; rest /= kDigits.size()) {
      text += kDigits[rest % kDigits.size()];
      if (rest < kDigits.size()) break;
    }
    if (Crc16(text) % kSlots == slot) return "{" + text + "}";
  }
}

}  // namespace distlock::store
