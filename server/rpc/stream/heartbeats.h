// SPDX-License-Identifier: Apache-2.0
//
// Joins the answers that several shards give to one heartbeat: the client hears of it when all that the session touches
// have answered, with the shortest validity and all limits.
//
// A lease granted by a shard that has answered already, while another has not, would be believed in by the joined ack
// although its shard could not list it: its grant becomes a limit of that ack.
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

// Heartbeats on their way through several shards. A client sends the next one a third of the validity later.
inline constexpr size_t kMaxPendingHeartbeats = 16;

class Heartbeats {
 public:
  // `shards`: bit i = shard i knows the session. Must not be 0.
  void Sent(uint64_t seq, uint64_t shards);

  // A shard learns of the session while heartbeats are under way: they wait for it too. Returns what to send to it, in
  // order, before anything else, so that its grants echo the present.
  std::vector<uint64_t> Joined(int shard);

  void Granted(int shard, core::RequestId acquire, core::Duration valid_for);

  // The ack to send, when `ack` was the last one missing.
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
