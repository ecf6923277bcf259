// SPDX-License-Identifier: Apache-2.0
#include "fork.h"

#include <grpc/grpc.h>
#include <pthread.h>

#include <atomic>

namespace distlock::internal {
namespace {

std::atomic<uint64_t> forks{0};
std::atomic<bool> grpc_in_use{false};  // at the last fork
std::atomic<bool> grpc_is_the_parents{false};

// Asked in the parent, because it takes a mutex of gRPC. gRPC counts as in use until the last of its threads has ended,
// which may be some time after the last connection has.
void BeforeFork() { grpc_in_use.store(grpc_is_initialized() != 0, std::memory_order_relaxed); }

void InChild() {
  forks.fetch_add(1, std::memory_order_relaxed);
  if (grpc_in_use.load(std::memory_order_relaxed)) grpc_is_the_parents.store(true, std::memory_order_relaxed);
}

}  // namespace

uint64_t ForkCount() {
  [[maybe_unused]] static const int watched = ::pthread_atfork(BeforeFork, nullptr, InChild);
  return forks.load(std::memory_order_relaxed);
}

bool GrpcIsTheParents() { return grpc_is_the_parents.load(std::memory_order_relaxed); }

}  // namespace distlock::internal
