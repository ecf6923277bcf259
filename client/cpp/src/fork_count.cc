// SPDX-License-Identifier: Apache-2.0
#include "fork_count.h"

#include <pthread.h>

#include <atomic>

namespace distlock::internal {
namespace {

std::atomic<uint64_t> count{0};

}  // namespace

uint64_t ForkCount() {
  [[maybe_unused]] static const int watched = ::pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1); });
  return count.load(std::memory_order_relaxed);
}

}  // namespace distlock::internal
