// SPDX-License-Identifier: Apache-2.0
#include "addresses.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace distlock::internal {

std::vector<std::string> SplitAddresses(const std::string& list) {
  std::vector<std::string> addresses;
  for (const auto& part : absl::StrSplit(list, ',')) {
    std::string target(absl::StripAsciiWhitespace(part));
    if (target.empty()) continue;
    if (target.front() == '/') target.insert(0, "unix://");
    if (std::find(addresses.begin(), addresses.end(), target) == addresses.end())
      addresses.push_back(std::move(target));
  }
  if (addresses.empty()) addresses.push_back(list);
  return addresses;
}

std::string AddressProblem(const std::string& target) {
  std::string_view place = target;
  const size_t scheme = target.find("://");
  if (scheme != std::string::npos && !target.starts_with("tls://") && !target.starts_with("dns://")) return "";
  for (const std::string_view known : {"unix:", "unix-abstract:", "vsock:"}) {
    if (place.starts_with(known)) return "";
  }
  if (scheme != std::string::npos) place = place.substr(target.starts_with("dns") ? place.rfind('/') + 1 : scheme + 3);
  for (const std::string_view family : {"dns:", "ipv4:", "ipv6:"}) {
    if (place.starts_with(family)) place.remove_prefix(family.size());
  }
  const auto problem = [&](const auto&... why) { return absl::StrCat("the broker's address ", target, " ", why...); };
  const std::string before(target, 0, target.size() - place.size());
  const size_t bracket = place.find(']');
  const bool is_open_ipv6 = bracket == std::string_view::npos && std::count(place.begin(), place.end(), ':') > 1;
  if (is_open_ipv6) return problem("is IPv6 without brackets; write ", before, "[", std::string(place), "]:7420");
  const size_t colon = place.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string port(colon == std::string_view::npos ? "" : place.substr(colon + 1));
  if (port.empty()) return problem("has no port; write ", before, std::string(place.substr(0, colon)), ":7420");
  int number = 0;
  if (absl::SimpleAtoi(port, &number) && number >= 1 && number <= 65535) return "";
  return problem("has the port ", port, "; a port is a number of 1..65535");
}

Addresses::Addresses(const std::string& list, uint32_t seed) : all_(SplitAddresses(list)) {
  std::shuffle(all_.begin(), all_.end(), std::minstd_rand(seed));
}

bool Addresses::Next() {
  present_ = (present_ + 1) % all_.size();
  ++tried_;
  if (tried_ < all_.size()) return true;
  tried_ = 0;
  return false;
}

}  // namespace distlock::internal
