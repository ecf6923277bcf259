// SPDX-License-Identifier: Apache-2.0
#include "store/redis_url.h"

#include <sys/un.h>

#include <optional>

#include "store/text.h"

namespace distlock::store {
namespace {

constexpr int kMaxDb = 1'000'000;

// Never with a part of the text: whatever is in the wrong place may be a password.
absl::Status Wrong(std::string_view why) {
  return absl::InvalidArgumentError(
      Cat(why, "; write redis://[user:password@]host[:port][/db], rediss://... or unix:///path[?db=N]"));
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> PercentDecode(std::string_view in) {
  std::string out;
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] != '%') {
      out += in[i];
      continue;
    }
    if (i + 2 >= in.size()) return std::nullopt;
    const int high = HexDigit(in[i + 1]);
    const int low = HexDigit(in[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  if (out.find('\0') != std::string::npos) return std::nullopt;
  return out;
}

absl::Status SetKind(std::string_view scheme, RedisUrl& url) {
  if (scheme == "redis") {
    url.kind = RedisUrl::Kind::kTcp;
  } else if (scheme == "rediss") {
    url.kind = RedisUrl::Kind::kTls;
  } else if (scheme == "unix") {
    url.kind = RedisUrl::Kind::kUnix;
  } else if (scheme.find_first_of(":@") != scheme.npos) {
    return Wrong("unknown scheme");
  } else if (scheme.starts_with("redis+") || scheme.starts_with("rediss+") || scheme == "redlock") {
    return absl::UnimplementedError(
        "Sentinel, Cluster and Redlock are not supported by this version; use a single server: redis://, rediss:// or "
        "unix://");
  } else {
    return Wrong("unknown scheme");
  }
  return absl::OkStatus();
}

absl::Status SetUserInfo(std::string_view info, RedisUrl& url) {
  const auto parts = Cut(info, ':');
  auto user = PercentDecode(parts.first);
  auto password = PercentDecode(parts.second);
  if (!user || !password) return Wrong("the part before '@' has a bad %XX escape");
  if (!user->empty() && password->empty()) {
    return Wrong("a user name without a password; for a password alone write redis://:password@host");
  }
  url.user = *std::move(user);
  url.password = *std::move(password);
  return absl::OkStatus();
}

absl::Status SetHostPort(std::string_view host_port, RedisUrl& url) {
  std::string_view port;
  if (host_port.starts_with("[")) {
    const size_t end = host_port.find(']');
    if (end == std::string_view::npos) return Wrong("'[' without ']'");
    url.host = std::string(host_port.substr(1, end - 1));
    port = host_port.substr(end + 1);
  } else {
    const size_t colon = host_port.find(':');
    url.host = std::string(host_port.substr(0, colon));
    if (colon != std::string_view::npos) port = host_port.substr(colon);
    if (port.find(':', 1) != std::string_view::npos) return Wrong("an IPv6 address needs brackets: [::1]");
  }
  if (url.host.empty()) return Wrong("no host");
  if (url.host.find_first_of(", \t/") != std::string::npos) return Wrong("one host only, without spaces");
  if (port.empty()) return absl::OkStatus();
  if (port[0] != ':' || !ReadInt(port.substr(1), &url.port) || url.port < 1 || url.port > 65535) {
    return Wrong("the port is not :1 to :65535");
  }
  return absl::OkStatus();
}

absl::Status SetDb(std::string_view db, RedisUrl& url) {
  if (!ReadInt(db, &url.db) || url.db < 0 || url.db > kMaxDb) {
    return Wrong("the database is not a number from 0");
  }
  return absl::OkStatus();
}

absl::Status SetQuery(std::string_view query, RedisUrl& url) {
  for (const std::string_view pair : Split(query, '&')) {
    if (pair.empty()) continue;
    const auto parts = Cut(pair, '=');
    auto value = PercentDecode(parts.second);
    if (!value || value->empty()) return Wrong("a parameter without a value");
    const bool tls = url.kind == RedisUrl::Kind::kTls;
    if (parts.first == "db" && url.kind == RedisUrl::Kind::kUnix) {
      if (auto status = SetDb(*value, url); !status.ok()) return status;
    } else if (tls && parts.first == "ca") {
      url.tls.ca = *std::move(value);
    } else if (tls && parts.first == "cert") {
      url.tls.cert = *std::move(value);
    } else if (tls && parts.first == "key") {
      url.tls.key = *std::move(value);
    } else if (tls && parts.first == "sni") {
      url.tls.sni = *std::move(value);
    } else {
      return Wrong("an unknown parameter (rediss:// knows ca, cert, key, sni; unix:// knows db)");
    }
  }
  if (url.tls.cert.empty() != url.tls.key.empty()) return Wrong("cert and key go together");
  return absl::OkStatus();
}

absl::Status SetPlace(std::string_view rest, RedisUrl& url) {
  if (url.kind == RedisUrl::Kind::kUnix) {
    auto path = PercentDecode(rest);
    if (!path || path->empty() || path->front() != '/') return Wrong("the socket's path must begin with '/'");
    if (path->size() >= sizeof(sockaddr_un{}.sun_path)) return Wrong("the socket's path is too long");
    url.path = *std::move(path);
    return absl::OkStatus();
  }
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos && slash + 1 < rest.size()) {
    if (auto status = SetDb(rest.substr(slash + 1), url); !status.ok()) return status;
  }
  return SetHostPort(rest.substr(0, slash), url);
}

}  // namespace

absl::StatusOr<RedisUrl> ParseRedisUrl(std::string_view text) {
  RedisUrl url;
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return Wrong("no scheme");
  const std::string_view scheme = text.substr(0, scheme_end);
  if (auto status = SetKind(scheme, url); !status.ok()) return status;
  std::string_view rest = text.substr(scheme_end + 3);

  // The last '@', so that a password with a bare '@' in it is hidden and understood as a whole.
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    if (auto status = SetUserInfo(rest.substr(0, at), url); !status.ok()) return status;
    rest = rest.substr(at + 1);
  }
  std::string_view query;
  if (const size_t mark = rest.find('?'); mark != std::string_view::npos) {
    query = rest.substr(mark + 1);
    rest = rest.substr(0, mark);
  }
  if (auto status = SetPlace(rest, url); !status.ok()) return status;
  if (auto status = SetQuery(query, url); !status.ok()) return status;
  return url;
}

std::string RedisUrl::Masked() const {
  std::string out = kind == Kind::kTcp ? "redis://" : kind == Kind::kTls ? "rediss://" : "unix://";
  if (!password.empty()) Append(out, user, ":***@");
  if (kind == Kind::kUnix) {
    Append(out, path);
    if (db != 0) Append(out, "?db=", db);
    return out;
  }
  const bool v6 = host.find(':') != std::string::npos;
  Append(out, v6 ? "[" : "", host, v6 ? "]:" : ":", port);
  if (db != 0) Append(out, "/", db);
  return out;
}

}  // namespace distlock::store
