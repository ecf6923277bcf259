// SPDX-License-Identifier: Apache-2.0
#include "access/pattern_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "access/spiffe.h"
#include "text/text.h"

namespace distlock::access {
namespace {

using text::Cat;
using text::Split;

constexpr std::array<std::string_view, 7> kHeads = {"jwt:", "k8s:", "token:", "spiffe://", "dns:", "uid:", "gid:"};

struct PlaceholderName {
  std::string_view name;
  Part part;
};
constexpr PlaceholderName kPlaceholders[] = {
    {"k8s.ns", Part::kK8sNamespace}, {"k8s.sa", Part::kK8sAccount}, {"dns", Part::kDns}, {"uid", Part::kUid},
    {"token", Part::kToken},
};
constexpr std::string_view kSpiffePart = "spiffe.";

absl::Status Bad(const std::string& why) { return absl::InvalidArgumentError(why); }

bool IsNumber(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_canonical = text.size() == 1 || !text.starts_with('0');
  return error == std::errc() && end == text.data() + text.size() && is_canonical;
}

bool AllOf(std::string_view text, std::string_view extra) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || extra.find(c) != extra.npos;
  });
}

constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ._-";

bool IsKubernetesName(std::string_view text) { return !text.empty() && text.size() <= 253 && AllOf(text, "-."); }

// Whether a caller's principal can have this text behind its head. `wild`: "*" counts as a segment.
bool IsWellFormed(Kind kind, const std::vector<std::string_view>& segments, bool wild) {
  const auto each = [&](auto is_good) {
    return std::all_of(segments.begin(), segments.end(),
                       [&](std::string_view one) { return (wild && one == "*") || is_good(one); });
  };
  switch (kind) {
    case Kind::kUid:
    case Kind::kGid:
      return segments.size() == 1 && each(IsNumber);
    case Kind::kToken:
      return segments.size() == 1 && each(IsName);
    case Kind::kDns:
      return segments.size() == 1 && each([](auto one) { return !one.empty() && AllOf(one, "-._"); });
    case Kind::kK8s:
      return segments.size() <= 2 && each(IsKubernetesName);
    case Kind::kSpiffe:
      return each([](auto one) { return !one.empty() && one != "." && one != ".." && AllOf(one, kUpper); });
    case Kind::kJwt:
      break;  // its two parts are any text
  }
  return true;
}

const char* FormOf(Kind kind) {
  switch (kind) {
    case Kind::kUid:
    case Kind::kGid:
      return "a number or *";
    case Kind::kToken:
      return "a token's name or *";
    case Kind::kDns:
      return "a whole name in lower case, or *";
    case Kind::kK8s:
      return "NAMESPACE/ACCOUNT, each a name or *";
    default:
      return "trust-domain/path, where * stands for a whole segment";
  }
}

absl::StatusOr<WhoPattern> ParsePattern(Kind kind, std::string_view body) {
  WhoPattern pattern{.kind = kind};
  if (kind == Kind::kJwt) {
    const size_t bar = body.find('|');
    if (bar == 0 || bar == body.npos || bar + 1 == body.size()) return Bad("is not of the form jwt:ISSUER|SUBJECT");
    pattern.segments = {std::string(body.substr(0, bar)), std::string(body.substr(bar + 1))};
    return pattern;
  }
  pattern.rest = body.ends_with("/**");
  if (pattern.rest) body.remove_suffix(3);
  const std::vector<std::string_view> segments = Split(body, "/");
  for (const std::string_view one : segments) {
    if (one != "*" && text::Contains(one, "*")) return Bad("has a * inside a segment; * stands for a whole segment");
  }
  const bool is_short = kind == Kind::kK8s && segments.size() == 1 && !pattern.rest;
  if (is_short || !IsWellFormed(kind, segments, true)) {
    return Bad(Cat("is not of the form ", HeadOf(kind), "... with ", FormOf(kind)));
  }
  if (kind == Kind::kSpiffe && segments.front() == "*") return Bad("needs a trust domain, not *");
  if (kind == Kind::kSpiffe && !IsTrustDomain(segments.front())) return Bad("has no valid trust domain");
  pattern.segments.assign(segments.begin(), segments.end());
  return pattern;
}

std::optional<TextPart> ParsePlaceholder(std::string_view name) {
  for (const PlaceholderName& row : kPlaceholders) {
    if (row.name == name) return TextPart{.part = row.part};
  }
  if (!name.starts_with(kSpiffePart)) return std::nullopt;
  name.remove_prefix(kSpiffePart.size());
  if (name.size() != 1 || name[0] < '1' || name[0] > '9') return std::nullopt;
  return TextPart{.part = Part::kSpiffe, .index = name[0] - '0'};
}

// Reads one side of a lock's pattern up to its end, or to the first ':' if `stops`.
struct Side {
  Template parts;
  bool star = false;  // ended by a *
  bool stopped = false;
};

void AppendLiteral(Template* parts, char c) {
  if (parts->empty() || parts->back().part != Part::kLiteral) parts->emplace_back();
  parts->back().literal += c;
}

absl::StatusOr<Side> ReadSide(std::string_view* text, bool stops) {
  Side side;
  while (!text->empty()) {
    const char c = text->front();
    text->remove_prefix(1);
    if (side.star) return Bad("has a * that is not at its end; write \\* for the character");
    if (c == '\\') {
      if (text->empty()) return Bad("ends in a \\ that stands before nothing");
      AppendLiteral(&side.parts, text->front());
      text->remove_prefix(1);
    } else if (c == '{') {
      const size_t end = text->find('}');
      if (end == text->npos) return Bad("has a { without }; write \\{ for the character");
      auto part = ParsePlaceholder(text->substr(0, end));
      if (!part) {
        return Bad(
            "has an unknown placeholder; there are {k8s.ns} {k8s.sa} {spiffe.1}..{spiffe.9} {dns} {uid} {token}");
      }
      side.parts.push_back(*std::move(part));
      text->remove_prefix(end + 1);
    } else if (c == '*') {
      side.star = true;
    } else if (c == ':' && stops) {
      side.stopped = true;
      return side;
    } else {
      AppendLiteral(&side.parts, c);
    }
  }
  return side;
}

absl::StatusOr<LockPattern> Assemble(absl::StatusOr<Side> ns, std::string_view key) {
  if (!ns.ok()) return ns.status();
  if (ns->star) return Bad("has a * in its namespace; write * alone for all locks");
  auto read = ReadSide(&key, /*stops=*/false);
  if (!read.ok()) return read.status();
  if (read->parts.empty() && !read->star) return Bad("has no key; write namespace:* for all of a namespace");
  LockPattern pattern{.ns = std::move(ns->parts), .key = std::move(read->parts), .prefix = read->star};
  if (pattern.ns.empty()) pattern.ns.push_back({.literal = std::string(kDefaultNamespace)});
  return pattern;
}

void AppendShown(const Template& parts, bool is_namespace, std::string* out) {
  for (const TextPart& part : parts) {
    if (part.part == Part::kLiteral) {
      for (const char c : part.literal) {
        if (c == '*' || c == '{' || c == '\\' || (c == ':' && is_namespace)) *out += '\\';
        *out += c;
      }
    } else if (part.part == Part::kSpiffe) {
      *out += Cat("{", kSpiffePart, part.index, "}");
    } else {
      for (const PlaceholderName& row : kPlaceholders) {
        if (row.part == part.part) *out += Cat("{", row.name, "}");
      }
    }
  }
}

std::optional<Kind> KindOf(std::string_view text) {
  for (size_t i = 0; i < kHeads.size(); ++i) {
    if (text.starts_with(kHeads[i])) return static_cast<Kind>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view HeadOf(Kind kind) { return kHeads[static_cast<size_t>(kind)]; }

bool IsName(std::string_view text) { return !text.empty() && text.size() <= 64 && AllOf(text, kUpper); }

absl::StatusOr<WhoPattern> ParseWho(std::string_view text) {
  if (text == "authenticated") return WhoPattern{.whom = WhoPattern::Whom::kAuthenticated};
  if (text == "anonymous") return WhoPattern{.whom = WhoPattern::Whom::kAnonymous};
  if (text == "anyone") return WhoPattern{.whom = WhoPattern::Whom::kAnyone};
  const auto kind = KindOf(text);
  if (!kind) {
    return Bad(
        "is neither a group of this file nor a principal: spiffe://..., k8s:NS/ACCOUNT, dns:NAME, uid:N, gid:N, "
        "token:NAME, jwt:ISSUER|SUBJECT, authenticated, anonymous, anyone");
  }
  return ParsePattern(*kind, text.substr(HeadOf(*kind).size()));
}

absl::StatusOr<LockPattern> ParseLock(std::string_view text) {
  if (text == "*") return LockPattern{.all = true};
  auto ns = ReadSide(&text, /*stops=*/true);
  if (ns.ok() && !ns->stopped) return Bad("has no namespace; write namespace:key, namespace:prefix* or * alone");
  return Assemble(std::move(ns), text);
}

absl::StatusOr<LockPattern> ParseLock(std::string_view ns, std::string_view key) {
  return Assemble(ReadSide(&ns, /*stops=*/false), key);
}

std::string Show(const LockPattern& pattern) {
  if (pattern.all) return "*";
  std::string shown;
  AppendShown(pattern.ns, true, &shown);
  shown += ':';
  AppendShown(pattern.key, false, &shown);
  if (pattern.prefix) shown += '*';
  return shown;
}

bool IsJwtSubject(std::string_view subject) {
  return !subject.starts_with(kServiceAccount) && !subject.starts_with(HeadOf(Kind::kSpiffe));
}

std::string NameInPlaceOfJwt(std::string_view subject) {
  if (!subject.starts_with(kServiceAccount)) return std::string(subject);
  const std::vector<std::string_view> parts = Split(subject.substr(kServiceAccount.size()), ":");
  std::string name = parts.size() == 2 ? Cat(HeadOf(Kind::kK8s), parts[0], "/", parts[1]) : "";
  return ParseWho(name).ok() ? name : Cat(HeadOf(Kind::kK8s), "NAMESPACE/ACCOUNT");
}

std::optional<Principal> ParsePrincipal(std::string_view text) {
  const auto kind = KindOf(text);
  if (!kind) return std::nullopt;
  const std::string_view body = text.substr(HeadOf(*kind).size());
  const std::vector<std::string_view> segments = Split(body, "/");
  if (*kind == Kind::kK8s && segments.size() != 2) return std::nullopt;
  if (*kind == Kind::kSpiffe && !ParseSpiffeId(text)) return std::nullopt;
  if (*kind == Kind::kJwt) {
    const size_t bar = body.find('|');
    if (bar == body.npos || !IsJwtSubject(body.substr(bar + 1))) return std::nullopt;
  }
  if (body.empty() || !IsWellFormed(*kind, segments, false)) return std::nullopt;
  return Principal{.kind = *kind, .text = std::string(text)};
}

}  // namespace distlock::access
