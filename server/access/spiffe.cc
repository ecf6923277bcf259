// SPDX-License-Identifier: Apache-2.0
#include "access/spiffe.h"

#include <algorithm>

#include "text/text.h"

namespace distlock::access {
namespace {

constexpr std::string_view kScheme = "spiffe://";
constexpr size_t kMostBytes = 2048;
constexpr size_t kMostDomainBytes = 255;

bool IsLower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-'; }

bool IsSegment(std::string_view text) {
  if (text.empty() || text == "." || text == "..") return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); });
}

}  // namespace

bool IsTrustDomain(std::string_view text) {
  return !text.empty() && text.size() <= kMostDomainBytes && std::all_of(text.begin(), text.end(), IsLower);
}

std::optional<SpiffeId> ParseSpiffeId(std::string_view text) {
  if (text.size() > kMostBytes || !text.starts_with(kScheme)) return std::nullopt;
  text.remove_prefix(kScheme.size());
  std::vector<std::string_view> parts = text::Split(text, "/");
  SpiffeId id{.trust_domain = parts.front(), .segments = {parts.begin() + 1, parts.end()}};
  if (!IsTrustDomain(id.trust_domain)) return std::nullopt;
  if (!std::all_of(id.segments.begin(), id.segments.end(), IsSegment)) return std::nullopt;
  return id;
}

}  // namespace distlock::access
