// SPDX-License-Identifier: Apache-2.0
//
// Names of a connection: its address, and the peer that it counts for. Pure; any thread.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <string>

namespace distlock::peer {

// The kernel shows it for users that have no number in this user namespace.
inline constexpr uid_t kOverflowUid = 65534;

// "ipv4:10.0.0.7:40000" or "ipv6:[::1]:40000"; "" for other families.
std::string AddressText(const sockaddr_storage& from);
// The peer that an address belongs to: an IPv4 address alone, or the /64 of an IPv6 address.
std::string PeerText(const sockaddr_storage& from);
// The peer that a user of a unix socket is: "unix:uid=7". Users without a number here are one peer.
std::string PeerText(uid_t user);

}  // namespace distlock::peer
