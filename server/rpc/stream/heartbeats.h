// SPDX-License-Identifier: Apache-2.0
//
// Joins the answers of several shards to one heartbeat. The client gets one ack when all shards of the session have
// answered, with the shortest validity and all limits.
//
// A shard may answer and then grant a lease while another shard's answer is missing. The joined ack would cover that
// lease, although its shard could not list it. So the grant becomes a limit of that ack.
//
// Not thread-safe: the session's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/messages.h"

namespace distlock::rpc {

// The most heartbeats that wait for answers of several shards. A client sends one each third of the validity.
inline constexpr size_t kMaxPendingHeartbeats = 16;

class Heartbeats {
 public:
  // `shards`: bit i = shard i knows the session. Must not be 0.
  void Sent(uint64_t seq, uint64_t shards);

  // A shard joins the session while heartbeats are pending: their acks wait for it, too. Returns the heartbeats to send
  // to that shard, in order, before anything else, so that its grants echo the newest one.
  std::vector<uint64_t> Joined(int shard);

  void Granted(int shard, core::RequestId acquire, core::Duration valid_for);

  // The ack to send, if `ack` was the last one missing.
  std::optional<core::HeartbeatAck> Answered(int shard, core::HeartbeatAck ack);

 private:
  struct Pending {
    uint64_t missing = 0;
    core::HeartbeatAck ack;
  };

  std::deque<Pending> pending_;
  uint64_t last_ = 0;
};

}  // namespace distlock::rpc
