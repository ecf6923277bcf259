// SPDX-License-Identifier: Apache-2.0
//
// Reads what a node of a Cluster answers. Pure; any thread.
#pragma once

#include <hiredis/hiredis.h>

#include <string_view>

#include "absl/status/statusor.h"
#include "store/cluster/slot_map.h"
#include "store/store_url.h"

namespace distlock::store {

// The reply to CLUSTER SLOTS of the node at `asked`, whose host stands for an empty one. Ranges whose node has no known
// address are left out. Unavailable: an error, or another shape.
absl::StatusOr<SlotsReport> ReadSlots(const redisReply& reply, const ServerAddress& asked);

}  // namespace distlock::store
