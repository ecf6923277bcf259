// SPDX-License-Identifier: Apache-2.0
//
// The store of a small system: the Redis model with the production scripts, seen through one lock. One is made and used
// by many simulations in turn, because loading the scripts costs more than a simulation. Single-threaded.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/types.h"
#include "exhaustive/digest.h"
#include "redis/redis_model.h"
#include "store/redis/codec.h"

namespace distlock::sim {

class SmallStore {
 public:
  SmallStore();

  // Empty, at that time; notices of the brokers 0 .. n-1 go to `on_notice`.
  void Reset(core::Instant now, std::function<void(size_t broker, std::string_view payload)> on_notice);
  void SetTime(core::Instant now);

  const store::Codec& codec(size_t broker) const { return broker == 0 ? first_ : second_; }
  store::ReplyPtr Run(size_t broker, std::string_view bytes);

  // One for all brokers of this room: here nothing drifts and nothing is late in between.
  const store::ServerClock& clock() const { return clock_; }
  // The lock's holder; the owner of zeros is nobody, kept out by a lock_delay.
  std::optional<core::HolderView> Holder() const;
  size_t Waiters() const;
  // Whether any key has changed since this was last asked.
  bool TakeChanged() { return std::exchange(changed_, false); }
  // When the holder's key ends by itself; kNever when there is none.
  core::Instant HolderEnds() const;
  // The names of all keys but the last token's, for a report.
  std::string KeysLeft() const;
  void AddTo(Digest& digest) const;

  static const core::LockName& Lock();

 private:
  RedisModel model_;
  store::ServerClock clock_{0};
  store::Codec first_;
  store::Codec second_;
  const std::string holder_key_;
  bool changed_ = false;
};

}  // namespace distlock::sim
