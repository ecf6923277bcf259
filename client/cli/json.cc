// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <algorithm>
#include <cstdio>

#include "distlock/wire/utf8.h"

namespace distlock::cli {

std::string QuoteJson(std::string_view value) {
  std::string out = "\"";
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    const size_t length = wire::CharacterLength(value.substr(i));
    if (length != 1) {
      // The wire carries UTF-8 only, but a command line may hold other bytes.
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
