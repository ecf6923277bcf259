// SPDX-License-Identifier: Apache-2.0
//
// The sinks of one shard by session. Events are gathered during a turn, so that a sink is called once per turn. Events
// for sessions that are not attached are dropped.
//
// Thread: the one that runs the shard's turn. Only Deliver calls sinks.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/messages.h"
#include "shard/sink.h"

namespace distlock::shard {

class Listeners {
 public:
  explicit Listeners(int shard) : shard_(shard) {}

  void Attach(core::SessionId session, std::shared_ptr<Sink> sink);
  // What is gathered for it is still told: it may be a grant that its caller has to give back. Unknown sessions are
  // ignored.
  void Detach(core::SessionId session);
  void Gather(core::Notify&& notify);
  // Tells each, and keeps whom it told.
  void Deliver();
  std::vector<std::shared_ptr<Sink>> TakeTold() { return std::exchange(told_, {}); }

  // What the sink says of itself; false of a session that is not attached.
  bool MayHoldMany(core::SessionId session) const;

  size_t size() const { return listeners_.size(); }

 private:
  struct Listener {
    std::shared_ptr<Sink> sink;
    std::vector<core::Notify> events;
  };

  const int shard_;
  absl::flat_hash_map<core::SessionId, Listener> listeners_;
  std::vector<Listener> leaving_;  // detached, with events
  std::vector<std::shared_ptr<Sink>> told_;
  std::vector<core::SessionId> addressed_;  // whose `events` became non-empty, in that order
};

}  // namespace distlock::shard
