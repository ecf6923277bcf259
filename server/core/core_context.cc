// SPDX-License-Identifier: Apache-2.0
#include "core/core_context.h"

#include <algorithm>

namespace distlock::core {

CoreContext::CoreContext(const BrokerConfig& broker_config)
    : config(broker_config), random_state_(broker_config.seed) {}

void CoreContext::BeginStep(Instant at, std::vector<Effect>& out) {
  now = std::max(now, at);
  effects_ = &out;
}

OpId CoreContext::SendOp(Op op) {
  const OpId id = next_op_++;
  op.sent = now;
  ops_.emplace(id, std::move(op));
  return id;
}

const Op* CoreContext::FindOp(OpId id) const {
  const auto found = ops_.find(id);
  return found == ops_.end() ? nullptr : &found->second;
}

std::optional<Op> CoreContext::TakeOp(OpId id) {
  const auto found = ops_.find(id);
  if (found == ops_.end()) return std::nullopt;
  std::optional<Op> op = std::move(found->second);
  ops_.erase(found);
  return op;
}

Duration CoreContext::AttemptTimeout(Duration ttl) { return std::clamp(ttl / 6, kAttemptMin, kAttemptMax); }

Duration CoreContext::BackOff(int attempts) {
  const Duration most = std::min<Duration>(kRetryMax, kRetryMin * (int64_t{1} << std::min(attempts, 10)));
  return kRetryMin / 2 + Duration(static_cast<int64_t>(static_cast<double>(most.count()) * Random()));
}

// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, the same everywhere.
double CoreContext::Random() {
  random_state_ += 0x9E3779B97F4A7C15ULL;
  uint64_t z = random_state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

}  // namespace distlock::core
