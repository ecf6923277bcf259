// SPDX-License-Identifier: Apache-2.0
//
// A refusal or a loss as the end of a call: a google.rpc.Status with code, message and details. Pure; any thread.
#pragma once

#include "core/messages.h"
#include "distlock/v1/lock.pb.h"
#include "google/rpc/status.pb.h"

namespace distlock::contract {

// With code, message and ErrorInfo; RetryInfo, BadRequest and ResourceInfo where they apply. `about`: the lock; may be
// empty.
google::rpc::Status ErrorOf(const v1::Refusal& refusal, const core::LockName& about = {});

// ABORTED, LEASE_LOST, with `lost_reason` in the metadata of ErrorInfo.
google::rpc::Status LostError(const core::Lost& lost);
// The same for a session that sent no heartbeat for the whole `validity`.
google::rpc::Status LapsedError(core::Duration validity);

}  // namespace distlock::contract
