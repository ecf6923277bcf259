// SPDX-License-Identifier: Apache-2.0
#include "web/routes.h"

#include <algorithm>

#include "text/text.h"
#include "web/messages.h"

namespace distlock::web {
namespace {

using text::Cat;

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// The texts of the {names} of `pattern`, still encoded; nullopt: it is another path.
std::optional<Fields> Match(std::string_view pattern, std::string_view path) {
  Fields fields;
  while (!pattern.empty()) {
    if (pattern.front() != '{') {
      if (path.empty() || path.front() != pattern.front()) return std::nullopt;
      pattern.remove_prefix(1);
      path.remove_prefix(1);
      continue;
    }
    const size_t close = pattern.find('}');
    const std::string_view name = pattern.substr(1, close - 1);
    pattern.remove_prefix(close + 1);
    const size_t end = pattern.empty() ? path.size() : std::min(path.find('/'), path.size());
    if (end == 0) return std::nullopt;
    fields.emplace_back(std::string(name), std::string(path.substr(0, end)));
    path.remove_prefix(end);
  }
  if (!path.empty()) return std::nullopt;
  return fields;
}

// In a query a + is a space.
std::optional<std::string> QueryDecoded(std::string_view text) {
  std::string spaced(text);
  for (char& c : spaced) c = c == '+' ? ' ' : c;
  return PercentDecoded(spaced);
}

NoRoute BadEncoding() {
  return {.status = 400, .allow = "", .problem = "the URL has a % that two hex digits do not follow"};
}

}  // namespace

std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      decoded += text[at];
      continue;
    }
    if (at + 2 >= text.size()) return std::nullopt;
    const int high = Digit(text[at + 1]);
    const int low = Digit(text[at + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return decoded;
}

std::optional<Fields> QueryFields(std::string_view query) {
  Fields fields;
  if (query.empty()) return fields;
  for (const std::string_view pair : text::Split(query, "&")) {
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    auto name = QueryDecoded(pair.substr(0, equals));
    auto value = QueryDecoded(pair.substr(std::min(equals + 1, pair.size())));
    if (!name || !value) return std::nullopt;
    fields.emplace_back(*std::move(name), *std::move(value));
  }
  return fields;
}

std::variant<Matched, NoRoute> FindRoute(const http::Request& request) {
  NoRoute none{.status = 404,
               .allow = "",
               .problem = Cat("there is no ", Shown(request.path), "; /openapi.json says what there is")};
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  for (const Route& route : kRoutes) {
    auto fields = Match(route.path, request.path);
    if (!fields) continue;
    if (route.method != method) {
      none = {.status = 405,
              .allow = std::string(route.method),
              .problem = Cat(route.path, " takes ", route.method, ", not ", Shown(request.method))};
      continue;
    }
    for (auto& [name, value] : *fields) {
      auto decoded = PercentDecoded(value);
      if (!decoded) return BadEncoding();
      value = *std::move(decoded);
    }
    auto more = QueryFields(request.query);
    if (!more) return BadEncoding();
    fields->insert(fields->end(), more->begin(), more->end());
    return Matched{.route = &route, .fields = *std::move(fields)};
  }
  return none;
}

}  // namespace distlock::web
