// SPDX-License-Identifier: Apache-2.0
//
// Whom a connection comes from, and who counts as one. Pure; any thread.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <string>

namespace distlock::peer {

// The kernel shows it for users that have no number in this user namespace.
inline constexpr uid_t kOverflowUid = 65534;

// "ipv4:10.0.0.7:40000" or "ipv6:[::1]:40000"; "" for other families.
std::string AddressText(const sockaddr_storage& from);
// Who counts as one: an IPv4 address, the /64 of an IPv6 address.
std::string PeerText(const sockaddr_storage& from);
// Who counts as one on a unix socket: "unix:uid=7". All that the kernel does not tell apart are one.
std::string PeerText(uid_t user);

}  // namespace distlock::peer
