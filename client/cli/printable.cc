// SPDX-License-Identifier: Apache-2.0
#include "printable.h"

namespace distlock::cli {

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    // U+0080 to U+009F are control characters: terminals read U+009B as ESC [.
    const bool c1 = byte == 0xc2 && next >= 0x80 && next <= 0x9f;
    out += byte < 0x20 || byte == 0x7f || c1 ? '?' : text[i];
    if (c1) ++i;
  }
  return out;
}

}  // namespace distlock::cli
