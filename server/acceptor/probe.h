// SPDX-License-Identifier: Apache-2.0
//
// Connects to one of the own listeners again and again: that it accepts shows that callers get in. The acceptor's
// thread only, except Alive.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <string>

#include "acceptor/listeners.h"
#include "acceptor/rate_limit.h"

namespace distlock::acceptor {

class Probe {
 public:
  explicit Probe(const Listener& listener);

  const std::string address;

  // Begins a connection, unless one is under way.
  void Connect(Clock::time_point now);
  // Whether the accepted connection from this address is the one that Connect began. It must then be closed.
  bool IsFrom(const sockaddr_storage& from, socklen_t size, Clock::time_point now);

  // No descriptor is free: that says nothing about the listener, which counts as alive for another 15 s.
  void CannotTell(Clock::time_point now);

  // False: for 15 s no connection was accepted. Any thread.
  bool Alive(Clock::time_point now) const;

 private:
  sockaddr_storage where_{};
  socklen_t where_size_ = 0;
  bool is_unix_ = false;
  Fd connecting_;
  std::string self_;  // the address that the connection under way comes from, as bytes
  Clock::time_point began_{};
  std::atomic<Clock::rep> accepted_;
};

}  // namespace distlock::acceptor
