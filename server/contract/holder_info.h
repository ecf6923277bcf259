// SPDX-License-Identifier: Apache-2.0
//
// The public facts about a caller, as the store keeps them beside the owner id: a distlock.v1.Holder with only owner,
// metadata, mode, permits, limit, broker_id, identity and detached set. "/shard" follows broker_id, except for shard 0.
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "distlock/v1/lock.pb.h"

namespace distlock::contract {

// `identity`: what the caller has proven; may be "".
std::string MakeInfo(const v1::LockSpec& spec, std::string_view broker_id, int shard, std::string_view identity = {},
                     bool detached = false);

// Bytes that replace the mode when they are appended to an info.
std::string ModeOverride(v1::LockMode mode);

// Leaves fields that cannot be read empty: anybody with access to the store may have written `info`.
v1::Holder ParseInfo(std::string_view info);

// The id by which the store knows the caller's shard; "": not known.
std::string ChannelBrokerOf(std::string_view info);

}  // namespace distlock::contract
