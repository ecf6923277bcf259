// SPDX-License-Identifier: Apache-2.0
#include "ops/secrets.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "absl/status/status.h"
#include "distlock/wire/given_file.h"
#include "ops/text.h"

namespace distlock::ops {
namespace {

constexpr size_t kMaxSecretBytes = 4096;

constexpr std::string_view kHidden = "***";
constexpr size_t kShownWord = 255;
constexpr int kPortDigits = 5;

bool IsWord(std::string_view text, std::string_view also) {
  return text.size() <= kShownWord && std::all_of(text.begin(), text.end(), [&](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || Contains(also, {&c, 1});
         });
}

bool IsNumber(std::string_view text, size_t most_digits) {
  return !text.empty() && text.size() <= most_digits && text.find_first_not_of("0123456789") == text.npos;
}

// host, host:port, [address] or [address]:port
bool IsPlace(std::string_view text) {
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == text.npos || text.substr(1, end - 1).find_first_not_of("0123456789abcdefABCDEF:.") != text.npos)
      return false;
    port = text.substr(end + 1);
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    if (colon == 0 || !IsWord(text.substr(0, colon), ".-_")) return false;
    port = text.substr(colon);
  }
  return port.empty() || (port[0] == ':' && IsNumber(port.substr(1), kPortDigits));
}

// `user:password` keeps the user. A text without a colon may be a password.
std::string RedactedUserInfo(std::string_view info) {
  const size_t colon = info.find(':');
  const bool user = colon != info.npos && IsWord(info.substr(0, colon), ".-_%");
  return Cat(user ? info.substr(0, colon + 1) : "", kHidden, "@");
}

std::string RedactedQuery(std::string_view query) {
  std::string out;
  for (const std::string_view pair : Split(query, "&")) {
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
    const std::string_view file = key.starts_with("sentinel_") ? key.substr(std::string_view("sentinel_").size()) : key;
    const bool known = file == "ca" || file == "cert" || file == "key" || file == "sni" || key == "sentinel_tls";
    const bool shown = key == "db" ? IsNumber(value, kPortDigits + 2) : known && IsWord(value, "./-_");
    const bool named = equals < pair.size() && IsWord(key, "-_");
    out += Cat(out.empty() ? "?" : "&", named ? pair.substr(0, equals + 1) : "", shown ? value : kHidden);
  }
  return out;
}

// `rest`: the URL after user and password, without the query.
bool IsPlain(std::string_view scheme, std::string_view rest) {
  if (scheme == "unix") return rest.starts_with('/');
  const size_t slash = std::min(rest.find('/'), rest.size());
  for (const std::string_view place : Split(rest.substr(0, slash), ",")) {
    if (!IsPlace(place)) return false;
  }
  const std::string_view path = rest.substr(std::min(slash + 1, rest.size()));
  const bool numbered = scheme == "redis" || scheme == "rediss";
  return path.empty() || (numbered ? IsNumber(path, kPortDigits + 2) : IsWord(path, ".-_/"));
}

}  // namespace

std::string RedactedUrl(std::string_view url) {
  const size_t end = url.find("://");
  const std::string_view scheme = url.substr(0, end);
  if (end == url.npos || scheme.empty() || !IsWord(scheme, "+.-")) {
    const bool place = url.empty() || (Contains(url, ":") && IsPlace(url));
    return std::string(place ? url : kHidden);
  }
  std::string_view rest = url.substr(end + 3);
  std::string out(url.substr(0, end + 3));
  // Uses the last '@', although a path or query may hold one: hiding too much is better than showing half a password.
  if (const size_t at = rest.rfind('@'); at != rest.npos) {
    out += RedactedUserInfo(rest.substr(0, at));
    rest.remove_prefix(at + 1);
  }
  const size_t query = std::min(rest.find('?'), rest.size());
  out += IsPlain(scheme, rest.substr(0, query)) ? rest.substr(0, query) : kHidden;
  if (query < rest.size()) out += RedactedQuery(rest.substr(query + 1));
  return out;
}

bool HasPassword(std::string_view url) {
  const size_t scheme = url.find("://");
  const std::string_view rest = scheme == url.npos ? "" : url.substr(scheme + 3);
  const size_t at = rest.rfind('@');
  return at != rest.npos && !rest.substr(0, at).ends_with(':') && at > 0;
}

std::string RedactedText(std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == text.npos) return std::string(text);
  // unix:///run/a@b is an address to listen on: a path, and neither a name nor a password.
  const std::string_view rest = text.substr(scheme + 3);
  const bool path = text.substr(0, scheme).ends_with("unix") && rest.starts_with('/') && !Contains(rest, "://");
  return path ? std::string(text) : RedactedUrl(text);
}

std::string Redacted(std::string_view lease_id) {
  if (lease_id.empty()) return "none";
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : lease_id) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  char digits[9];
  std::snprintf(digits, sizeof(digits), "%08x", static_cast<uint32_t>(hash ^ hash >> 32));
  return digits;
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  const auto problem = [&](std::string_view what) {
    return absl::FailedPreconditionError(Cat("secret file ", WordOrQuoted(RedactedText(path)), " ", what));
  };
  const wire::GivenFile file = wire::ReadGivenFile(path, kMaxSecretBytes);
  if (!file.problem.empty()) return problem(file.problem);
  std::string_view secret = file.text;
  if (secret.ends_with('\n')) secret.remove_suffix(1);
  if (secret.ends_with('\r')) secret.remove_suffix(1);
  if (secret.empty()) return problem("is empty");
  if (secret.find('\0') != secret.npos) return problem("holds a zero byte: it is not text");
  return std::string(secret);
}

}  // namespace distlock::ops
