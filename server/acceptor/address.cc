// SPDX-License-Identifier: Apache-2.0
#include "acceptor/address.h"

#include <sys/un.h>

#include <algorithm>
#include <charconv>

#include "absl/status/status.h"
#include "text/text.h"
#include "text/unix_address.h"

namespace distlock::acceptor {
namespace {

using text::Cat;
using text::Contains;

// Messages say what is allowed; the caller puts the name of the option and the value in front.
absl::Status NoAddress() {
  return absl::InvalidArgumentError("is not an address: write host:port, [ipv6]:port or unix:///path");
}

bool IsPort(std::string_view text, int* port) {
  return !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == text.npos &&
         std::from_chars(text.data(), text.data() + text.size(), *port).ec == std::errc() && *port <= 65535;
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == address.npos) return absl::InvalidArgumentError("has no port: write host:port or [ipv6]:port");
  HostPort result;
  if (!IsPort(address.substr(colon + 1), &result.port)) {
    return absl::InvalidArgumentError("has no valid port: after the last ':' comes a number in 0..65535");
  }
  std::string_view host = address.substr(0, colon);
  if (host.empty()) return absl::InvalidArgumentError("has no host: write 127.0.0.1:port, or 0.0.0.0:port for all");
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (bracketed != Contains(host, ":")) return NoAddress();
  if (host.empty() || host.find_first_of("[]/ \t\n,\"'") != host.npos) return NoAddress();
  result.host = std::string(host);
  return result;
}

bool IsLoopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  // Only digits and dots, because 127.example.org is a name that may resolve to any address.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

absl::Status CheckListenAddress(std::string_view address) {
  if (!text::IsUnixAddress(address)) return ParseHostPort(address).status();
  const text::UnixAddress parsed = text::ParseUnixAddress(address);
  if (!parsed.problem.empty()) return absl::InvalidArgumentError(parsed.problem);
  const std::string_view path = parsed.path;
  if (path.size() < 2 || path[0] != '/') {
    return absl::InvalidArgumentError("is not an absolute path: write unix:///path/of/the.sock");
  }
  // Refused, so that --print-config can print every path in a form that --config reads.
  if (std::any_of(address.begin(), address.end(), [](char c) { return c < 0x20 || c > 0x7e; })) {
    return absl::InvalidArgumentError("has a byte in its path that is not printable ASCII: choose another path");
  }
  // Probably two addresses joined by mistake; one of them may hold a password.
  if (path.find("://") != path.npos) {
    return absl::InvalidArgumentError("has \"://\" in its path: give each address by itself, or choose another path");
  }
  constexpr size_t kMax = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kMax) {
    return absl::InvalidArgumentError(
        Cat("has a path of ", path.size(), " bytes; a unix socket's has at most ", kMax, ": choose a shorter one"));
  }
  return absl::OkStatus();
}

}  // namespace distlock::acceptor
