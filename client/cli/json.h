// SPDX-License-Identifier: Apache-2.0
//
// Writes one JSON object on one line, with its members in the order in which they were added: scripts diff and parse
// the output of `-o json`, so its order must not depend on a hash. Copies the values. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace distlock::cli {

class Json {
 public:
  Json& Text(std::string_view name, std::string_view value);
  Json& Number(std::string_view name, int64_t value);
  Json& Flag(std::string_view name, bool value);
  Json& Null(std::string_view name);
  Json& Object(std::string_view name, const Json& value);
  Json& List(std::string_view name, const std::vector<Json>& values);
  Json& Texts(std::string_view name, const std::vector<std::string>& values);

  // Without a line end.
  std::string Line() const { return "{" + body_ + "}"; }

 private:
  Json& Raw(std::string_view name, std::string_view value);

  std::string body_;
};

// The string with its quotes. UTF-8 passes unchanged; other bytes from 0x80 up become U+FFFD.
std::string QuoteJson(std::string_view value);

}  // namespace distlock::cli
