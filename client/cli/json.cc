// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <algorithm>
#include <cstdio>

namespace distlock::cli {

namespace {

// The length of the UTF-8 character at the head of `text`, 0 when there is none (RFC 3629, section 4).
size_t CharacterAtHead(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  const unsigned least = lead == 0xe0   ? 0xa0
                         : lead == 0xf0 ? 0x90
                                        : 0x80,
                 most = lead == 0xed   ? 0x9f
                        : lead == 0xf4 ? 0x8f
                                       : 0xbf;
  if (length == 0 || at(1) < least || at(1) > most) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  }
  return length;
}

}  // namespace

std::string QuoteJson(std::string_view value) {
  std::string out = "\"";
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    const size_t length = CharacterAtHead(value.substr(i));
    if (length != 1) {
      // Bytes of a command line need not be text.
      out += length == 0 ? "\xef\xbf\xbd" : value.substr(i, length);
      i += std::max<size_t>(length, 1) - 1;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          char escaped[8];
          std::snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
          out += escaped;
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

Json& Json::Raw(std::string_view name, std::string_view value) {
  if (!body_.empty()) body_ += ",";
  body_ += QuoteJson(name);
  body_ += ":";
  body_ += value;
  return *this;
}

Json& Json::Text(std::string_view name, std::string_view value) { return Raw(name, QuoteJson(value)); }
Json& Json::Number(std::string_view name, int64_t value) { return Raw(name, std::to_string(value)); }
Json& Json::Flag(std::string_view name, bool value) { return Raw(name, value ? "true" : "false"); }
Json& Json::Null(std::string_view name) { return Raw(name, "null"); }
Json& Json::Object(std::string_view name, const Json& value) { return Raw(name, value.Line()); }

Json& Json::List(std::string_view name, const std::vector<Json>& values) {
  std::string list;
  for (const Json& value : values) list += (list.empty() ? "" : ",") + value.Line();
  return Raw(name, "[" + list + "]");
}

Json& Json::Texts(std::string_view name, const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += (list.empty() ? "" : ",") + QuoteJson(value);
  return Raw(name, "[" + list + "]");
}

}  // namespace distlock::cli
