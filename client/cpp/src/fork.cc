// SPDX-License-Identifier: Apache-2.0
#include "fork.h"

#include <pthread.h>

#include <atomic>

namespace distlock::internal {
namespace {

std::atomic<uint64_t> forks{0};
std::atomic<uint64_t> grpc_uses{0};
std::atomic<bool> grpc_is_the_parents{false};

void OnForkInChild() {
  forks.fetch_add(1, std::memory_order_relaxed);
  if (grpc_uses.load(std::memory_order_relaxed) > 0) grpc_is_the_parents.store(true, std::memory_order_relaxed);
}

}  // namespace

uint64_t ForkCount() {
  [[maybe_unused]] static const int watched = ::pthread_atfork(nullptr, nullptr, OnForkInChild);
  return forks.load(std::memory_order_relaxed);
}

GrpcUse::GrpcUse() {
  ForkCount();
  grpc_uses.fetch_add(1, std::memory_order_relaxed);
}

GrpcUse::~GrpcUse() { grpc_uses.fetch_sub(1, std::memory_order_relaxed); }

bool GrpcIsTheParents() { return grpc_is_the_parents.load(std::memory_order_relaxed); }

}  // namespace distlock::internal
