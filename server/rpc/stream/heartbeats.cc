// SPDX-License-Identifier: Apache-2.0
#include "rpc/stream/heartbeats.h"

#include <algorithm>
#include <utility>

namespace distlock::rpc {

void Heartbeats::Sent(uint64_t seq, uint64_t shards) {
  // Only an overloaded shard answers this late. A newer heartbeat's ack covers everything that an older one's would.
  if (pending_.size() >= kMaxPendingHeartbeats) pending_.pop_front();
  pending_.push_back({.missing = shards, .ack = {.seq = seq, .valid_for = core::Duration::max(), .limits = {}}});
  last_ = std::max(last_, seq);
}

std::vector<uint64_t> Heartbeats::Joined(int shard) {
  std::vector<uint64_t> seqs;
  for (Pending& pending : pending_) {
    pending.missing |= uint64_t{1} << shard;
    seqs.push_back(pending.ack.seq);
  }
  if (seqs.empty() && last_ > 0) seqs.push_back(last_);
  return seqs;
}

void Heartbeats::Granted(int shard, core::RequestId acquire, core::Duration valid_for) {
  for (Pending& pending : pending_) {
    if ((pending.missing >> shard & 1) == 0) pending.ack.limits.push_back({acquire, valid_for});
  }
}

std::optional<core::HeartbeatAck> Heartbeats::Answered(int shard, core::HeartbeatAck ack) {
  const uint64_t bit = uint64_t{1} << shard;
  const auto found = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& pending) {
    return pending.ack.seq == ack.seq && (pending.missing & bit) != 0;
  });
  if (found == pending_.end()) return std::nullopt;
  found->missing &= ~bit;
  core::HeartbeatAck& joined = found->ack;
  joined.valid_for = std::min(joined.valid_for, ack.valid_for);
  joined.limits.insert(joined.limits.end(), ack.limits.begin(), ack.limits.end());
  if (found->missing != 0) return std::nullopt;
  core::HeartbeatAck complete = std::move(joined);
  // Shards answer in order, so older heartbeats that are still unanswered were lost in a full mailbox.
  pending_.erase(pending_.begin(), found + 1);
  // A limit that is not below the joined validity has no effect.
  std::erase_if(complete.limits, [&](const core::LeaseLimit& l) { return l.valid_for >= complete.valid_for; });
  return complete;
}

}  // namespace distlock::rpc
