// SPDX-License-Identifier: Apache-2.0
#include "http/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace distlock::http {
namespace {

// Whether the text behind the name is nothing, or a colon and a port, which may be empty.
bool IsPort(std::string_view text) {
  if (text.empty()) return true;
  const std::string_view digits = text.substr(1);
  unsigned port = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  const bool is_number = read.ec == std::errc() && read.ptr == digits.data() + digits.size() && port <= 65535;
  return text.front() == ':' && (digits.empty() || is_number);
}

bool IsAddress(int family, const std::string& name) {
  in6_addr unused{};
  return inet_pton(family, name.c_str(), &unused) == 1;
}

// Read whole: whoever reads only its beginning, or only its end, sees another host.
std::optional<std::string> NameOf(std::string_view host) {
  const bool bracketed = host.starts_with('[');
  const size_t end = std::min(host.find(bracketed ? ']' : ':'), host.size());
  if (bracketed && end == host.size()) return std::nullopt;
  std::string name(bracketed ? host.substr(1, end - 1) : host.substr(0, end));
  if (!IsPort(host.substr(bracketed ? end + 1 : end)) || (bracketed && !IsAddress(AF_INET6, name))) return std::nullopt;
  return name;
}

}  // namespace

std::string LowerText(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

bool IsHostOf(std::string_view host, const std::vector<std::string>& names) {
  const std::optional<std::string> named = NameOf(host);
  if (!named) return false;
  const std::string name = LowerText(*named);
  return host.starts_with('[') || IsAddress(AF_INET, name) || name == "localhost" ||
         std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace distlock::http
