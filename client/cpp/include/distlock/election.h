// SPDX-License-Identifier: Apache-2.0
//
// Election: many candidates, one leader at a time. It is the lock of that name, taken EXCLUSIVE; the leader is its
// holder, and its value (an address, say) travels as the holder's metadata, so that everybody can see who leads and
// where. An Election is only a name and options bound to a client; copies are cheap and equal. Thread-safe.
//
// What a lock cannot promise a leader cannot either: between a look at state() and what is done then, leadership may
// end. Hand token() to whatever the leader changes; it grows from leader to leader.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "distlock/acquirer.h"
#include "distlock/guard.h"
#include "distlock/types.h"

namespace distlock {

class Client;

// Under this name the value stands among the holder's metadata.
inline constexpr char kElectionValue[] = "value";

// Who leads, as others see it.
struct Leader {
  std::string value;
  std::string owner;
  std::string holder_id;
  uint64_t token = 0;
  std::chrono::system_clock::time_point since;  // by the store's clock

  // The same term of the same leader.
  bool operator==(const Leader& other) const { return holder_id == other.holder_id && token == other.token; }
};

// A term in office. Move-only; its destructor resigns without waiting for the answer.
class Leadership {
 public:
  Leadership() = default;  // leads nothing

  // Gives the leadership to the next candidate and waits for the answer.
  ReleaseOutcome Resign() { return guard_.Release(); }

  // As of Guard: whether this program may still act as the leader, without a round trip; stopped when the term ends in
  // any way; why it ended; what to hand to the resource the leader changes.
  LockState state() const { return guard_.state(); }
  std::stop_token stop_token() const { return guard_.stop_token(); }
  EndCause end_cause() const { return guard_.end_cause(); }
  uint64_t token() const { return guard_.token(); }
  const Guard& guard() const { return guard_; }

 private:
  friend class Election;
  explicit Leadership(Guard guard) : guard_(std::move(guard)) {}

  Guard guard_;
};

using CampaignCallback = std::function<void(Result<Leadership>)>;

class Election {
 public:
  // `value`: what observers are told of this candidate; it counts with the metadata's limit of 1 KiB.
  Election(Client& client, std::string name, std::string value = "", LockOptions options = {});

  // Waits until elected, or for options.max_wait. `cancel` withdraws the candidate: the answer is then kCancelled.
  // Candidates are elected in the order of their campaigns.
  Result<Leadership> Campaign(std::stop_token cancel = {});

  // Leads now, or not at all: kLockHeld names who does.
  Result<Leadership> TryCampaign();

  // Campaigns at most this long.
  Result<Leadership> CampaignFor(Duration max_wait, std::stop_token cancel = {});

  // `callback` is called exactly once, on a thread of the library, and must not block.
  PendingLock CampaignAsync(CampaignCallback callback);

  // Who leads at this moment: one round trip, over a connection that only looking uses. Nobody may, between two terms.
  Result<std::optional<Leader>> Look();

  // Tells `on_change` on this thread who leads, at once and after each change, until `stop`; the answer is then
  // kCancelled. Any other ends it, too: what no further attempt can cure. While no broker can be reached nothing is
  // told; afterwards what has changed is. A broker that cannot tell changes is asked every second instead.
  Refusal Observe(const std::function<void(const std::optional<Leader>&)>& on_change, std::stop_token stop);

 private:
  class Eyes;
  static Result<Leadership> Elected(Result<Guard> answer);

  internal::Acquirer lock_;
  std::shared_ptr<Eyes> eyes_;
};

}  // namespace distlock
