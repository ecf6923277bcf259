// SPDX-License-Identifier: Apache-2.0
//
// The public facts about who asked for a lock, as the store keeps them beside the owner id: a distlock.v1.Holder with
// only owner, metadata, mode, permits and broker_id set; broker_id has "/shard" behind it, but for shard 0. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "distlock/v1/lock.pb.h"

namespace distlock::contract {

std::string MakeInfo(const v1::LockSpec& spec, std::string_view broker_id, int shard);

// Appended to an info it replaces the mode.
std::string ModeOverride(v1::LockMode mode);

// Anybody with access to the store may have written it: what cannot be read is left empty.
v1::Holder ParseInfo(std::string_view info);

// The id by which the store knows the shard that asked; "": it is not known.
std::string ChannelBrokerOf(std::string_view info);

}  // namespace distlock::contract
