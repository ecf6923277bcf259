// SPDX-License-Identifier: Apache-2.0
#include "peer/names.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "text/text.h"

namespace distlock::peer {
namespace {

using text::Cat;

// An address of either family. An IPv4 address that is written as IPv6 is an IPv4 one.
struct Host {
  bool is_v4 = false;
  in_addr v4{};
  in6_addr v6{};
  uint16_t port = 0;
};

std::optional<Host> HostOf(const sockaddr_storage& from) {
  Host host;
  if (from.ss_family == AF_INET) {
    const auto& at = reinterpret_cast<const sockaddr_in&>(from);
    host.is_v4 = true;
    host.v4 = at.sin_addr;
    host.port = ntohs(at.sin_port);
    return host;
  }
  if (from.ss_family != AF_INET6) return std::nullopt;
  const auto& at = reinterpret_cast<const sockaddr_in6&>(from);
  host.v6 = at.sin6_addr;
  host.port = ntohs(at.sin6_port);
  host.is_v4 = IN6_IS_ADDR_V4MAPPED(&at.sin6_addr);
  if (host.is_v4) std::memcpy(&host.v4, &at.sin6_addr.s6_addr[12], sizeof(host.v4));
  return host;
}

std::string V4Text(const in_addr& address) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address, text, sizeof(text));
  return text;
}

std::string V6Text(const in6_addr& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, &address, text, sizeof(text));
  return text;
}

}  // namespace

std::string AddressText(const sockaddr_storage& from) {
  const auto host = HostOf(from);
  if (!host) return "";
  return host->is_v4 ? Cat("ipv4:", V4Text(host->v4), ":", host->port)
                     : Cat("ipv6:[", V6Text(host->v6), "]:", host->port);
}

std::string PeerText(const sockaddr_storage& from) {
  const auto host = HostOf(from);
  if (!host) return "";
  if (host->is_v4) return Cat("ipv4:", V4Text(host->v4));
  in6_addr network = host->v6;
  std::memset(&network.s6_addr[8], 0, 8);
  return Cat("ipv6:", V6Text(network), "/64");
}

std::string PeerText(uid_t user) { return user == kOverflowUid ? "unix:uid=unknown" : Cat("unix:uid=", user); }

}  // namespace distlock::peer
