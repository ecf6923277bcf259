// SPDX-License-Identifier: Apache-2.0
//
// Why something was not given, as the contract says it: a Refusal on a Session, a status with google.rpc details on
// every other call. Messages are for people: they name the lock, who has it, and what to do next. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/messages.h"
#include "distlock/v1/lock.pb.h"
#include "distlock/v1/lock_service.pb.h"

namespace distlock::contract {

// The core's word for a refusal; `about` may be empty when no single lock is meant.
// `about`: what was asked for.
v1::Refusal RefusalOf(const core::Refused& refused, const core::LockName& about);

// A refusal this room makes itself. `message` is complete.
v1::Refusal MakeRefusal(core::RefusalReason reason, std::string message, core::Duration retry_after = {});
v1::Refusal DrainingRefusal();
v1::Refusal OverloadRefusal();

// Why GetLock or ListLocks got no answer from the store.
v1::Refusal StoreRefusal(const absl::Status& status, const core::LockName& about);

// What Lost.message says.
std::string LostMessage(const core::Lost& lost);
v1::Lost LostOf(const core::Lost& lost);

}  // namespace distlock::contract
