// SPDX-License-Identifier: Apache-2.0
//
// The answers of a Cluster's node that has not run a command. None of them has run. Pure; any thread.
#pragma once

#include <optional>
#include <string_view>

#include "store/cluster/hash_slot.h"
#include "store/cluster_events.h"
#include "store/store_url.h"

namespace distlock::store {

struct Redirect {
  // kMoved: the slot is at `to`. kAsk: this once it is to be asked for at `to`, behind ASKING.
  using Kind = ClusterEvents::Redirect;
  Kind kind = Kind::kTryAgain;
  Slot slot = 0;                    // kMoved, kAsk
  std::optional<ServerAddress> to;  // kMoved, kAsk; nullopt: the node does not know the address either
};

// From an error reply of the node at `asked`, whose host stands for an empty one. nullopt: another error, or a redirect
// of unknown shape.
std::optional<Redirect> ParseRedirect(std::string_view error, const ServerAddress& asked);

}  // namespace distlock::store
