// SPDX-License-Identifier: Apache-2.0
//
// Keeps the order of the commands for one lock while its slot moves from node to node. Pure.
//
// On one connection commands run in the order in which they were sent. With redirects, one that was sent first may run
// last: an acquire that is sent to its new node only after the withdraw behind it has been answered would leave a grant
// that nobody waits for. Hence:
// - Commands for a lock are out at one node at a time. When the slot has moved, the next ones wait until all that are
//   out have been answered.
// - A redirected command has surely not run. It is sent again once nothing else is out, in the old order and before all
//   that came later; at most kMaxRedirects times.
// - If a later command has run meanwhile, the redirected one must not run any more: it fails instead.
// - A command behind ASKING is out alone.
//
// A lock has a lane only while a command for it is out. Thread: the loop's. A value.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "core/lock_name.h"
#include "store/cluster/slot_map.h"

namespace distlock::store {

class LockLanes {
 public:
  using CommandId = uint64_t;
  static constexpr int kMaxRedirects = 3;

  struct Step {
    enum class What : uint8_t {
      kSend,
      kSendAsking,  // behind ASKING
      kFail,        // it has not run, and is not sent any more
    };
    What what = What::kSend;
    CommandId id = 0;
    NodeNumber node = kNoNode;  // to send it to
  };
  using Steps = std::vector<Step>;

  // A new command for a lock whose slot is at `node` by the map. True: send it there now. Else it waits, and a later
  // step sends it.
  bool Enter(const core::LockName& lock, CommandId id, NodeNumber node);
  // It was answered, and may have run; or it is known that it never will. `node` is where the map has the slot now.
  void Answered(const core::LockName& lock, CommandId id, NodeNumber node, Steps& steps);
  // It was redirected: to `node`, where the map has the slot now; or, this once, to `ask_at`.
  void Redirected(const core::LockName& lock, CommandId id, std::optional<NodeNumber> ask_at, NodeNumber node,
                  Steps& steps);

  // Locks with commands out.
  size_t size() const { return lanes_.size(); }

 private:
  struct Item {
    CommandId id = 0;
    enum class State : uint8_t { kWaits, kOut, kRedirected } state = State::kWaits;
    uint8_t redirects = 0;
    std::optional<NodeNumber> ask_at;  // the next time it is sent, behind ASKING
  };
  struct Lane {
    NodeNumber node = kNoNode;           // where commands are out
    bool alone = false;                  // the one that is out was sent behind ASKING
    absl::InlinedVector<Item, 1> items;  // in the order in which they came
  };

  static bool AnyOut(const Lane& lane);
  // Nothing is out: sends what may leave. `node` is where the map has the slot.
  void GoOn(const core::LockName& lock, NodeNumber node, Steps& steps);

  absl::flat_hash_map<core::LockName, Lane> lanes_;
};

}  // namespace distlock::store
