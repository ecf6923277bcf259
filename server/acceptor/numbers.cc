// SPDX-License-Identifier: Apache-2.0
#include "acceptor/numbers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace distlock::acceptor {
namespace {

constexpr int kMostTries = 64;
constexpr int kManyNumbers = 1 << 16;
constexpr std::chrono::seconds kLongestRest(60);

}  // namespace

Numbers::Numbers(int first, int count)
    : first_(first),
      rest_(std::chrono::duration_cast<Clock::duration>(kLongestRest) * std::clamp(count, 0, kManyNumbers) /
            kManyNumbers),
      free_since_(static_cast<size_t>(std::max(count, 1)), Clock::time_point::min()) {}

int Numbers::Take(int fd, Clock::time_point now) {
  // In turn, so that the number that has rested longest comes next.
  for (int tries = 0; tries < kMostTries; ++tries) {
    const int number = fcntl(fd, F_DUPFD_CLOEXEC, first_ + next_);
    if (number >= first_ && number < first_ + count()) {
      next_ = (number - first_ + 1) % count();
      const Clock::time_point since = free_since_[static_cast<size_t>(number - first_)];
      if (since == Clock::time_point::min() || now - since >= rest_) return number;
      close(number);
      continue;
    }
    if (number >= 0) close(number);
    if (next_ == 0) break;
    next_ = 0;  // the upper ones are in use
  }
  errno = EMFILE;
  return -1;
}

void Numbers::Rest(int number, Clock::time_point now) {
  if (number >= first_ && number < first_ + count()) free_since_[static_cast<size_t>(number - first_)] = now;
}

}  // namespace distlock::acceptor
