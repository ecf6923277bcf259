// SPDX-License-Identifier: Apache-2.0
#include "ops/secrets.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "ops/text.h"

namespace distlock::ops {
namespace {

constexpr size_t kMaxSecretBytes = 4096;

// `user:password` keeps the user; without a colon it may well be a password somebody put in the wrong place.
std::string RedactedUserInfo(std::string_view info) {
  const size_t colon = info.find(':');
  return Cat(colon == info.npos ? "" : info.substr(0, colon + 1), "***");
}

std::string RedactedQuery(std::string_view query) {
  std::string out;
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    const size_t equals = pair.find('=');
    const bool secret =
        equals != pair.npos && (Contains(pair.substr(0, equals), "pass") || Contains(pair.substr(0, equals), "auth"));
    out += Cat(out.empty() ? "?" : "&", secret ? pair.substr(0, equals + 1) : pair, secret ? "***" : "");
    query.remove_prefix(end == query.npos ? query.size() : end + 1);
  }
  return out;
}

}  // namespace

std::string RedactedUrl(std::string_view url) {
  const size_t scheme = url.find("://");
  const size_t body = scheme == url.npos ? 0 : scheme + 3;
  std::string_view rest = url.substr(body);
  std::string out(url.substr(0, body));
  // The last '@', although a path or query may hold one: hiding too much is better than half a password.
  if (const size_t at = rest.rfind('@'); at != rest.npos) {
    out += Cat(RedactedUserInfo(rest.substr(0, at)), "@");
    rest.remove_prefix(at + 1);
  }
  const size_t query = rest.find('?');
  out += Cat(rest.substr(0, query));
  if (query != rest.npos) out += Cat(RedactedQuery(rest.substr(query + 1)));
  return out;
}

std::string RedactedText(std::string_view text) {
  for (size_t at = text.find("://"); at != text.npos; at = text.find("://", at + 1)) {
    const std::string_view rest = text.substr(at + 3);
    // A path begins where somebody's name would stand: unix:///run/a@b.
    if (!rest.starts_with('/') && Contains(rest, "@")) return RedactedUrl(text);
  }
  return std::string(text);
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
    return absl::FailedPreconditionError(Cat("secret file ", WordOrQuoted(path), " ", what));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) return problem(Cat("cannot be read: ", std::strerror(errno)));
  std::string content(kMaxSecretBytes + 1, '\0');
  content.resize(std::fread(content.data(), 1, content.size(), file.get()));
  if (std::ferror(file.get())) return problem(Cat("cannot be read: ", std::strerror(errno)));
  if (content.size() > kMaxSecretBytes) return problem(Cat("has more than ", kMaxSecretBytes, " bytes"));
  std::string_view secret = content;
  if (secret.ends_with('\n')) secret.remove_suffix(1);
  if (secret.ends_with('\r')) secret.remove_suffix(1);
  if (secret.empty()) return problem("is empty");
  if (secret.find('\0') != secret.npos) return problem("holds a zero byte: it is not text");
  return std::string(secret);
}

}  // namespace distlock::ops
