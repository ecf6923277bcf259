// SPDX-License-Identifier: Apache-2.0
#include "http/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>

namespace distlock::http {
namespace {

// Without its port, and without the brackets of an IPv6 address.
std::string NameOf(std::string_view host) {
  if (host.starts_with('[')) return std::string(host.substr(1, std::min(host.find(']'), host.size()) - 1));
  return std::string(host.substr(0, host.find(':')));
}

bool IsAddress(const std::string& name) {
  in6_addr unused{};
  return inet_pton(AF_INET, name.c_str(), &unused) == 1 || inet_pton(AF_INET6, name.c_str(), &unused) == 1;
}

}  // namespace

std::string LowerText(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

bool IsHostOf(std::string_view host, const std::vector<std::string>& names) {
  const std::string name = LowerText(NameOf(host));
  return IsAddress(name) || name == "localhost" || std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace distlock::http
