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
  // Deliver still delivers the events gathered for it: one may be a grant that the call must release. Unknown sessions
  // are ignored.
  void Detach(core::SessionId session);
  void Gather(core::Notify&& notify);
  // Has Send called though there may be no events for it.
  void Wake(core::SessionId session);
  // Gives each sink its events, and keeps the sinks for TakeTold.
  void Deliver();
  std::vector<std::shared_ptr<Sink>> TakeTold() { return std::exchange(told_, {}); }

  // Sink::MayHoldMany of the session's sink; false when none is attached.
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
  std::vector<core::SessionId> addressed_;  // sessions with events, in the order of their first event
};

}  // namespace distlock::shard
