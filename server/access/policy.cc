// SPDX-License-Identifier: Apache-2.0
#include "access/policy.h"

#include <algorithm>

#include "access/pattern_text.h"
#include "text/text.h"

namespace distlock::access {
namespace {

bool MatchesPrincipal(const WhoPattern& pattern, const Principal& principal) {
  if (pattern.kind != principal.kind) return false;
  std::string_view left = std::string_view(principal.text).substr(HeadOf(principal.kind).size());
  if (pattern.kind == Kind::kJwt) {
    const size_t bar = left.find('|');
    const std::string& subject = pattern.segments[1];
    return left.substr(0, bar) == pattern.segments[0] && (subject == "*" || left.substr(bar + 1) == subject);
  }
  // Principals have no empty segment, and patterns at least one segment.
  const std::vector<std::string_view> have = text::Split(left, "/");
  const size_t wanted = pattern.segments.size();
  if (pattern.rest ? have.size() <= wanted : have.size() != wanted) return false;
  for (size_t i = 0; i < wanted; ++i) {
    if (pattern.segments[i] != "*" && pattern.segments[i] != have[i]) return false;
  }
  return true;
}

bool MatchesOne(const WhoPattern& pattern, const Caller& caller) {
  switch (pattern.whom) {
    case WhoPattern::Whom::kAnyone:
      return true;
    case WhoPattern::Whom::kAuthenticated:
      return !caller.anonymous();
    case WhoPattern::Whom::kAnonymous:
      return caller.anonymous();
    case WhoPattern::Whom::kPrincipal:
      break;
  }
  return std::any_of(caller.principals.begin(), caller.principals.end(),
                     [&](const Principal& principal) { return MatchesPrincipal(pattern, principal); });
}

}  // namespace

std::optional<Verb> VerbOf(std::string_view name) {
  const auto* const found = std::find(kVerbNames.begin(), kVerbNames.end(), name);
  if (found == kVerbNames.end()) return std::nullopt;
  return static_cast<Verb>(found - kVerbNames.begin());
}

bool Matches(const std::vector<WhoPattern>& who, const Caller& caller) {
  return std::any_of(who.begin(), who.end(), [&](const WhoPattern& pattern) { return MatchesOne(pattern, caller); });
}

const Quota* QuotaOf(const Policy& policy, const Caller& caller) {
  for (const Quota& quota : policy.limits) {
    if (Matches(quota.who, caller)) return &quota;
  }
  return nullptr;
}

}  // namespace distlock::access
