// SPDX-License-Identifier: Apache-2.0
#include "core/core_context.h"

#include <algorithm>

namespace distlock::core {

CoreContext::CoreContext(const BrokerConfig& broker_config) : config(broker_config), random(broker_config.seed) {}

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
  return kRetryMin / 2 + Duration(static_cast<int64_t>(static_cast<double>(most.count()) * random.Next()));
}

}  // namespace distlock::core
