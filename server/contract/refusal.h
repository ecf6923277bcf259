// SPDX-License-Identifier: Apache-2.0
//
// Refusals and losses as messages of the contract. Their texts are for people: they name the lock, its holder, and what
// to do next. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/messages.h"
#include "distlock/v1/lock.pb.h"
#include "distlock/v1/lock_service.pb.h"

namespace distlock::contract {

// `about`: the lock that was asked for; empty when there is no single one.
v1::Refusal RefusalOf(const core::Refused& refused, const core::LockName& about);

// A refusal that does not come from the core. `message` is complete. `retry_after`: zero = the default of the reason.
v1::Refusal MakeRefusal(core::RefusalReason reason, std::string message, core::Duration retry_after = {});
v1::Refusal DrainingRefusal();
v1::Refusal OverloadRefusal();

// For a read that the store did not answer.
v1::Refusal StoreRefusal(const absl::Status& status, const core::LockName& about);

// The text of Lost.message.
std::string LostMessage(const core::Lost& lost);
v1::LeaseLost LostOf(const core::Lost& lost);

}  // namespace distlock::contract
