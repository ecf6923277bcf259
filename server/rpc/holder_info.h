// SPDX-License-Identifier: Apache-2.0
//
// The public facts about who asked for a lock, as the store keeps them beside the owner id: a distlock.v1.Holder with
// only owner, metadata, mode, permits and broker_id set. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "distlock/v1/lock.pb.h"

namespace distlock::rpc {

std::string MakeInfo(const v1::LockSpec& spec, std::string_view broker_id);

// Anybody with access to the store may have written it: what cannot be read is left empty.
v1::Holder ParseInfo(std::string_view info);

}  // namespace distlock::rpc
