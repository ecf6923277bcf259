// SPDX-License-Identifier: Apache-2.0
//
// Converts enums of the contract to those of the core. An unspecified or unknown value becomes the default of the
// contract. Pure; any thread.
#pragma once

#include "core/types.h"
#include "distlock/v1/lock.pb.h"

namespace distlock::contract {

core::Mode FromProto(v1::LockMode mode);
core::Policy FromProto(v1::QueuePolicy policy);
core::OnDisconnect FromProto(v1::OnDisconnect on_disconnect);

}  // namespace distlock::contract
