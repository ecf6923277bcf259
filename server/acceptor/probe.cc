// SPDX-License-Identifier: Apache-2.0
#include "acceptor/probe.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "acceptor/peers.h"

namespace distlock::acceptor {
namespace {

constexpr std::chrono::seconds kPatience(2);
constexpr std::chrono::seconds kSilence(15);

// A socket that is bound to every address is reached on loopback.
void Narrow(sockaddr_storage& where) {
  if (where.ss_family == AF_INET) {
    auto& at = reinterpret_cast<sockaddr_in&>(where);
    if (at.sin_addr.s_addr == htonl(INADDR_ANY)) at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else if (where.ss_family == AF_INET6) {
    auto& at = reinterpret_cast<sockaddr_in6&>(where);
    if (IN6_IS_ADDR_UNSPECIFIED(&at.sin6_addr)) at.sin6_addr = in6addr_loopback;
  }
}

std::string Bytes(const sockaddr_storage& from, socklen_t size) {
  if (from.ss_family != AF_UNIX) return AddressText(from);
  return {reinterpret_cast<const char*>(&from), std::min<size_t>(size, sizeof(from))};
}

}  // namespace

Probe::Probe(const Listener& listener)
    : address(listener.address), is_unix_(listener.is_unix), accepted_(Clock::now().time_since_epoch().count()) {
  where_size_ = sizeof(where_);
  getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&where_), &where_size_);
  Narrow(where_);
}

void Probe::Connect(Clock::time_point now) {
  if (connecting_.get() >= 0 && now - began_ < kPatience) return;
  connecting_ = Fd(socket(where_.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connecting_.get() < 0) return CannotTell(now);
  if (is_unix_) {
    // Without a path the kernel chooses a name that nobody else has.
    const sa_family_t family = AF_UNIX;
    (void)bind(connecting_.get(), reinterpret_cast<const sockaddr*>(&family), sizeof(family));
  } else {
    const linger at_once{1, 0};
    setsockopt(connecting_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  began_ = now;
  (void)connect(connecting_.get(), reinterpret_cast<const sockaddr*>(&where_), where_size_);
  sockaddr_storage self{};
  socklen_t size = sizeof(self);
  getsockname(connecting_.get(), reinterpret_cast<sockaddr*>(&self), &size);
  self_ = Bytes(self, size);
}

bool Probe::IsFrom(const sockaddr_storage& from, socklen_t size, Clock::time_point now) {
  if (connecting_.get() < 0 || self_.empty() || Bytes(from, size) != self_) return false;
  connecting_.Reset();
  accepted_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
  return true;
}

void Probe::CannotTell(Clock::time_point now) {
  accepted_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
}

bool Probe::Alive(Clock::time_point now) const {
  return now - Clock::time_point(Clock::duration(accepted_.load(std::memory_order_relaxed))) < kSilence;
}

}  // namespace distlock::acceptor
