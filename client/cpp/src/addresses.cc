// SPDX-License-Identifier: Apache-2.0
#include "addresses.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>

#include <algorithm>
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
