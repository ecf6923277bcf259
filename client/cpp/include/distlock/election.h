// SPDX-License-Identifier: Apache-2.0
//
// Election: many candidates, one leader at a time. An election is the lock of that name, taken EXCLUSIVE. The leader is
// its holder; the leader's value (its address, say) is part of the holder's metadata, so everybody can see who leads
// and where. An Election is only a name and options bound to a client; copies are cheap and equal. Thread-safe. An
// Election may outlive its Client; its calls are then refused with kClientClosed.
//
// Leadership may end between a call of state() and the action that follows. Pass token(), which grows from leader to
// leader, to the resource that the leader changes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "distlock/guard.h"
#include "distlock/pending_lock.h"
#include "distlock/types.h"

namespace distlock {

class Client;

namespace internal {
class LeaderLookup;
}

// The metadata entry that holds the leader's value, in every language.
inline constexpr char kElectionValue[] = "distlock.election";

// The leader, as others see it.
struct Leader {
  std::string value;
  std::string owner;
  std::string holder_id;  // another one after Leadership::Proclaim
  int64_t token = 0;
  std::chrono::system_clock::time_point acquire_time;  // when its term began, by the store's clock

  // True for the same term, each of which has a token of its own, with the same value.
  bool operator==(const Leader& other) const { return token == other.token && value == other.value; }
};

using ProclaimCallback = Callback<void(std::optional<Refusal>)>;

// One term of a leader. Move-only; its destructor resigns without waiting for the answer.
class Leadership {
 public:
  Leadership() = default;  // leads nothing

  // Gives the leadership to the next candidate and waits for the answer.
  ReleaseOutcome Resign() { return guard_.Release(); }

  // Shows `value` to observers from now on, and waits for the answer: nothing on success, else the reason. kNotHolder:
  // the term is over. kInvalidArgument: the broker does not take the value, and the former one stays. While no broker
  // or store is reached it waits until one is, or the term ends. Of several calls at a time the last value counts.
  std::optional<Refusal> Proclaim(std::string value);

  // The same without blocking. `callback` is called exactly once, on a thread of the library, perhaps before this
  // returns. It must neither block nor throw.
  void ProclaimAsync(std::string value, ProclaimCallback callback);

  // As for Guard: kHeld and kAtRisk mean that this program still leads; the stop token stops when the term ends.
  LockState state() const { return guard_.state(); }
  std::stop_token stop_token() const { return guard_.stop_token(); }
  EndCause end_cause() const { return guard_.end_cause(); }
  int64_t token() const { return guard_.token(); }
  const Guard& guard() const { return guard_; }

 private:
  friend class Election;
  explicit Leadership(Guard guard) : guard_(std::move(guard)) {}

  Guard guard_;
};

using CampaignCallback = Callback<void(Result<Leadership>)>;

class Election {
 public:
  // `value`: what observers are told of this candidate. It counts toward the metadata's limit of 1 KiB.
  // `options.metadata` must not have an entry kElectionValue: campaigns are then refused with kInvalidArgument.
  Election(Client& client, std::string name, std::string value = "", LockOptions options = {});

  // Waits until this candidate leads, or for options.max_wait. `cancel` withdraws the candidate: the answer is then
  // kCancelled. Candidates are elected in the order of their campaigns.
  Result<Leadership> Campaign(std::stop_token cancel = {});

  // Tries once. When another candidate leads: kLockHeld, with the leader among the holders.
  Result<Leadership> TryCampaign();

  // Waits at most this long.
  Result<Leadership> CampaignFor(Duration max_wait, std::stop_token cancel = {});

  // Waits until this time of any clock at most. A clock that is set meanwhile does not change the wait.
  template <class Clock, class D>
  Result<Leadership> CampaignUntil(const std::chrono::time_point<Clock, D>& until, std::stop_token cancel = {}) {
    return CampaignFor(TimeUntil(until), std::move(cancel));
  }

  // Campaign without blocking. `callback` is called exactly once, on a thread of the library (see client.h), perhaps
  // before this returns. It must neither block nor throw.
  PendingLock CampaignAsync(CampaignCallback callback);

  // The leader at this moment; nothing between two terms. One round trip, at most 5 s, over a second connection to the
  // broker, which all elections of the Client share. Refused with kWouldDeadlock in a callback of the library.
  Result<std::optional<Leader>> Look();

  // Calls `on_change` on this thread with who leads, at once and after each change. Returns when `stop` is requested
  // (kCancelled), when the Client is destroyed (kClientClosed), or with a refusal that no further attempt can change.
  // While no broker can be reached, it tries again with the pauses of ClientOptions::reconnect_initial, and then
  // reports what has changed. It asks a broker that cannot report changes once a second. `on_change` may block; Observe
  // passes on what `on_change` throws.
  Refusal Observe(const std::function<void(const std::optional<Leader>&)>& on_change, std::stop_token stop);

 private:
  static Result<Leadership> Elected(Result<Guard> answer);

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::LeaderLookup> lookup_;
  std::shared_ptr<const internal::Spec> spec_;
};

}  // namespace distlock
