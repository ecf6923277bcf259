// SPDX-License-Identifier: Apache-2.0
#include "store/store_url.h"

#include <sys/un.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "store/text.h"

namespace distlock::store {
namespace {

constexpr int kMaxDb = 1'000'000;

// Shows no part of the text: a part in the wrong place may be a password.
absl::Status Wrong(std::string_view why) {
  return absl::InvalidArgumentError(Cat(why,
                                        "; write redis://[user:password@]host[:port][/db], rediss://..., "
                                        "unix:///path[?db=N], redis+sentinel://[user:password@]host,host,host/name or "
                                        "redis+cluster://[user:password@]host,host,host or "
                                        "redlock://[user:password@]host,host,host"));
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

// Known, so that the error can say that they come later.
constexpr std::string_view kNotSupportedYet[] = {"etcd", "etcds"};

absl::Status SetScheme(std::string_view scheme, StoreUrl& url) {
  using Transport = StoreUrl::Transport;
  if (scheme.ends_with("+sentinel")) {
    url.topology = StoreUrl::Topology::kSentinel;
    scheme.remove_suffix(std::string_view("+sentinel").size());
    if (scheme == "unix") return Wrong("unknown scheme");
  } else if (scheme.ends_with("+cluster")) {
    url.topology = StoreUrl::Topology::kCluster;
    scheme.remove_suffix(std::string_view("+cluster").size());
    if (scheme == "unix") return Wrong("unknown scheme");
  }
  if (scheme == "redlock" || scheme == "redlocks") {
    url.topology = StoreUrl::Topology::kQuorum;
    url.transport = scheme == "redlock" ? Transport::kTcp : Transport::kTls;
  } else if (scheme == "redis") {
    url.transport = Transport::kTcp;
  } else if (scheme == "rediss") {
    url.transport = Transport::kTls;
  } else if (scheme == "unix") {
    url.transport = Transport::kUnix;
  } else if (std::find(std::begin(kNotSupportedYet), std::end(kNotSupportedYet), scheme) !=
             std::end(kNotSupportedYet)) {
    return absl::UnimplementedError(
        Cat(scheme,
            ":// is not supported yet by this version; use redis://, rediss://, unix://, redis+sentinel://, "
            "redis+cluster:// or redlock://"));
  } else {
    return Wrong("unknown scheme");
  }
  return absl::OkStatus();
}

absl::Status SetUserInfo(std::string_view info, StoreUrl& url) {
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

absl::Status ReadHostPort(std::string_view host_port, ServerAddress& address) {
  std::string_view port;
  if (host_port.starts_with("[")) {
    const size_t end = host_port.find(']');
    if (end == std::string_view::npos) return Wrong("'[' without ']'");
    address.host = std::string(host_port.substr(1, end - 1));
    port = host_port.substr(end + 1);
  } else {
    const size_t colon = host_port.find(':');
    address.host = std::string(host_port.substr(0, colon));
    if (colon != std::string_view::npos) port = host_port.substr(colon);
    if (port.find(':', 1) != std::string_view::npos) return Wrong("an IPv6 address needs brackets: [::1]");
  }
  if (address.host.empty()) return Wrong("no host");
  if (address.host.find_first_of(", \t/") != std::string::npos) return Wrong("one host only, without spaces");
  if (port.empty()) return absl::OkStatus();
  if (port[0] != ':' || !ReadInt(port.substr(1), &address.port) || address.port < 1 || address.port > 65535) {
    return Wrong("the port is not :1 to :65535");
  }
  return absl::OkStatus();
}

// Addresses with commas between them. `what`: of one, for people.
absl::Status ReadAddresses(std::string_view places, int usual_port, std::string_view what,
                           std::vector<ServerAddress>& addresses) {
  for (const std::string_view place : Split(places, ",")) {
    ServerAddress address{.port = usual_port};
    if (auto status = ReadHostPort(place, address); !status.ok()) return status;
    if (std::find(addresses.begin(), addresses.end(), address) != addresses.end()) {
      return Wrong(Cat("the same ", what, " twice"));
    }
    addresses.push_back(std::move(address));
  }
  if (addresses.empty()) return Wrong("no host");
  if (addresses.size() > kMaxAddresses) return Wrong(Cat("more than ", kMaxAddresses, " ", what, "s"));
  return absl::OkStatus();
}

absl::Status SetServers(std::string_view places, StoreUrl& url) {
  if (auto status = ReadAddresses(places, ServerAddress{}.port, "server", url.servers); !status.ok()) return status;
  const size_t count = url.servers.size();
  if (count < kMinServers || count > kMaxServers || count % 2 == 0) {
    return Wrong(Cat("a quorum has 3, 5, 7 or 9 servers, not ", count));
  }
  return absl::OkStatus();
}

absl::Status SetDb(std::string_view db, StoreUrl& url) {
  if (!ReadInt(db, &url.db) || url.db < 0 || url.db > kMaxDb) {
    return Wrong("the database is not a number from 0");
  }
  return absl::OkStatus();
}

// The field of a TLS file; null: there is none of that name.
std::string* FileField(std::string_view name, TlsFiles& files) {
  if (name == "ca") return &files.ca;
  if (name == "cert") return &files.cert;
  if (name == "key") return &files.key;
  if (name == "sni") return &files.sni;
  return nullptr;
}

absl::Status SetParameter(std::string_view name, std::string value, StoreUrl& url) {
  const bool sentinel = url.topology == StoreUrl::Topology::kSentinel;
  if (name == "db" && url.transport == StoreUrl::Transport::kUnix) return SetDb(value, url);
  if (sentinel && name == "sentinel_tls") {
    if (value != "on" && value != "off") return Wrong("sentinel_tls is on or off");
    url.sentinel_tls = value == "on";
    return absl::OkStatus();
  }
  std::string* file = nullptr;
  if (sentinel && name.starts_with("sentinel_")) {
    file = FileField(name.substr(std::string_view("sentinel_").size()), url.sentinel_tls_files);
  } else if (url.transport == StoreUrl::Transport::kTls) {
    file = FileField(name, url.tls);
  }
  if (file == nullptr) {
    return Wrong(
        "an unknown parameter (rediss:// knows ca, cert, key, sni; unix:// knows db; redis+sentinel:// knows "
        "sentinel_tls, sentinel_ca, sentinel_cert, sentinel_key, sentinel_sni)");
  }
  *file = std::move(value);
  return absl::OkStatus();
}

absl::Status SetQuery(std::string_view query, StoreUrl& url) {
  url.sentinel_tls = url.topology == StoreUrl::Topology::kSentinel && url.transport == StoreUrl::Transport::kTls;
  for (const std::string_view pair : Split(query, "&")) {
    if (pair.empty()) continue;
    const auto parts = Cut(pair, '=');
    auto value = PercentDecode(parts.second);
    if (!value || value->empty()) return Wrong("a parameter without a value");
    if (auto status = SetParameter(parts.first, *std::move(value), url); !status.ok()) return status;
  }
  if (url.tls.cert.empty() != url.tls.key.empty()) return Wrong("cert and key go together");
  const TlsFiles& files = url.sentinel_tls_files;
  if (files.cert.empty() != files.key.empty()) return Wrong("sentinel_cert and sentinel_key go together");
  if (!url.sentinel_tls && !(files == TlsFiles{})) return Wrong("files for sentinels that are not asked over TLS");
  return absl::OkStatus();
}

// rest: host[:port],.../name[/db]
absl::Status SetSentinelPlace(std::string_view rest, StoreUrl& url) {
  const auto [places, path] = Cut(rest, '/');
  if (auto status = ReadAddresses(places, kSentinelPort, "sentinel", url.sentinels); !status.ok()) return status;
  const auto [name, db] = Cut(path, '/');
  auto decoded = PercentDecode(name);
  if (!decoded || decoded->empty()) return Wrong("no name of the primary after the sentinels");
  if (!std::all_of(decoded->begin(), decoded->end(), [](char c) { return c > ' ' && c < 0x7f; })) {
    return Wrong("the primary's name has a space or a character beyond ASCII");
  }
  url.primary_name = *std::move(decoded);
  return db.empty() ? absl::OkStatus() : SetDb(db, url);
}

// rest: host[:port],...[/]
absl::Status SetClusterPlace(std::string_view rest, StoreUrl& url) {
  const auto [places, path] = Cut(rest, '/');
  if (!path.empty() && path != "0") {
    return Wrong(
        "a Cluster has only the database 0: write redis+cluster://host:port,host:port without a number behind it, and "
        "--key-prefix where several users share it");
  }
  return ReadAddresses(places, ServerAddress{}.port, "node", url.seeds);
}

absl::Status SetPlace(std::string_view rest, StoreUrl& url) {
  if (url.transport == StoreUrl::Transport::kUnix) {
    auto path = PercentDecode(rest);
    if (!path || path->empty() || path->front() != '/') return Wrong("the socket's path must begin with '/'");
    if (path->size() >= sizeof(sockaddr_un{}.sun_path)) return Wrong("the socket's path is too long");
    url.address.path = *std::move(path);
    return absl::OkStatus();
  }
  if (url.topology == StoreUrl::Topology::kSentinel) return SetSentinelPlace(rest, url);
  if (url.topology == StoreUrl::Topology::kCluster) return SetClusterPlace(rest, url);
  const size_t slash = rest.find('/');
  if (slash != std::string_view::npos && slash + 1 < rest.size()) {
    if (auto status = SetDb(rest.substr(slash + 1), url); !status.ok()) return status;
  }
  if (url.topology == StoreUrl::Topology::kQuorum) return SetServers(rest.substr(0, slash), url);
  return ReadHostPort(rest.substr(0, slash), url.address);
}

}  // namespace

absl::StatusOr<StoreUrl> ParseStoreUrl(std::string_view text) {
  StoreUrl url;
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return Wrong("no scheme");
  const std::string_view scheme = text.substr(0, scheme_end);
  if (auto status = SetScheme(scheme, url); !status.ok()) return status;
  std::string_view rest = text.substr(scheme_end + 3);

  // The last '@' ends the password, so that a password may contain a bare '@'.
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

std::string ServerAddress::Text() const {
  if (!path.empty()) return path;
  const bool v6 = host.find(':') != std::string::npos;
  return Cat(v6 ? "[" : "", host, v6 ? "]:" : ":", port);
}

std::string StoreUrl::Masked() const {
  std::string out = transport == Transport::kTcp ? "redis" : transport == Transport::kTls ? "rediss" : "unix";
  if (topology == Topology::kQuorum) out = transport == Transport::kTls ? "redlocks" : "redlock";
  Append(out, topology == Topology::kSentinel  ? "+sentinel://"
              : topology == Topology::kCluster ? "+cluster://"
                                               : "://");
  if (!password.empty()) Append(out, user, ":***@");
  const auto append_all = [&out](const std::vector<ServerAddress>& addresses) {
    for (size_t i = 0; i < addresses.size(); ++i) Append(out, i == 0 ? "" : ",", addresses[i].Text());
  };
  if (topology == Topology::kSentinel) {
    append_all(sentinels);
    Append(out, "/", primary_name);
  } else if (topology == Topology::kCluster) {
    append_all(seeds);
  } else if (topology == Topology::kQuorum) {
    append_all(servers);
  } else {
    Append(out, address.Text());
  }
  if (db != 0) Append(out, transport == Transport::kUnix ? "?db=" : "/", db);
  return out;
}

}  // namespace distlock::store
