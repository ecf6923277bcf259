// SPDX-License-Identifier: Apache-2.0
//
// Events of a quorum of servers, for metrics. Values; the callback runs on the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace distlock::store {

// A candidate's questions to several servers at once: votes; to confirm the greatest of several tokens; to give its
// votes back to who came before; to join a grant that they did not vote for. Without faults a lock that nobody else
// wants takes one round of votes.
enum class QuorumRound : uint8_t { kVote, kConfirm, kYield, kJoin };
inline constexpr size_t kQuorumRounds = 4;

struct QuorumEvents {
  std::function<void(QuorumRound, uint64_t count)> on_rounds;  // unset: nobody counts
};

}  // namespace distlock::store
