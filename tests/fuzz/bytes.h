// SPDX-License-Identifier: Apache-2.0
//
// The input of a fuzzer, taken apart from its front: numbers, choices and texts. An input that has run out gives zeros
// and empty texts, so every input means something. A view: the bytes outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace distlock::fuzz {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : left_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return left_.empty(); }

  template <typename T>
  T Number() {
    static_assert(std::is_integral_v<T>);
    T value{};
    left_.remove_prefix(left_.copy(reinterpret_cast<char*>(&value), sizeof(T)));
    return value;
  }
  uint8_t Byte() { return Number<uint8_t>(); }
  // 0 .. bound - 1, from one byte; `bound` 1..256.
  size_t Below(size_t bound) { return Byte() % bound; }
  bool Flag() { return (Byte() & 1) != 0; }

  // One byte of length, then so many bytes.
  std::string_view Text() { return Take(Byte()); }
  // Two bytes of length.
  std::string_view LongText() { return Take(Number<uint16_t>()); }
  std::string_view Rest() { return Take(left_.size()); }

 private:
  std::string_view Take(size_t size) {
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view left_;
};

// How an input says where a secret stands: `text` with each byte 0x01 replaced by `by`, which holds kSecret. No input
// can spell the secret itself: its letter is left out of the rest.
inline constexpr std::string_view kSecret = "QQQQ";
inline std::string Planted(std::string_view text, std::string_view by) {
  std::string out;
  for (const char c : text) {
    if (c == '\x01') {
      out += by;
    } else if (c != kSecret.front()) {
      out += c;
    }
  }
  return out;
}

}  // namespace distlock::fuzz
