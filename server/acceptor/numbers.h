// SPDX-License-Identifier: Apache-2.0
//
// The descriptor numbers of unix connections. gRPC names such a connection by its number, so a number that has become
// free rests before it is given to another connection. The acceptor's thread only.
#pragma once

#include <vector>

#include "acceptor/rate_limit.h"

namespace distlock::acceptor {

class Numbers {
 public:
  // Numbers in [first, first + count). A number rests for a minute at 2^16 of them, for less in proportion to `count`,
  // so that there are always enough for about a thousand new connections a second.
  Numbers(int first, int count);

  // A duplicate of `fd`, with a rested number, close-on-exec. -1 when every number is in use or rests: errno is EMFILE.
  int Take(int fd, Clock::time_point now);
  // The connection of this number has ended. gRPC may keep it open for longer; it is then not given out either.
  void Rest(int number, Clock::time_point now);

  Clock::duration rest() const { return rest_; }
  int count() const { return static_cast<int>(free_since_.size()); }

 private:
  const int first_;
  const Clock::duration rest_;
  std::vector<Clock::time_point> free_since_;
  int next_ = 0;
};

}  // namespace distlock::acceptor
