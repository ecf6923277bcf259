// SPDX-License-Identifier: Apache-2.0
//
// A refusal or a loss as the end of a call: a google.rpc.Status with code, message and details. Pure; any thread.
#pragma once

#include "core/messages.h"
#include "distlock/v1/lock.pb.h"
#include "distlock/wire/status_details.pb.h"

namespace distlock::contract {

// With code, message and ErrorInfo; RetryInfo, BadRequest and ResourceInfo where they apply. `about`: the lock; may be
// empty.
wire::RpcStatus ErrorOf(const v1::Refusal& refusal, const core::LockName& about = {});

// ABORTED, LEASE_LOST, with `lost_reason` in the metadata of ErrorInfo.
wire::RpcStatus LostError(const core::Lost& lost);
// The same for a session that sent no heartbeat for the whole `validity`.
wire::RpcStatus LapsedError(core::Duration validity);
// The same for a stream whose process has ended, told to whoever has the connection from it.
wire::RpcStatus HolderDiedError();

}  // namespace distlock::contract
