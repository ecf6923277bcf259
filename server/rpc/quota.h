// SPDX-License-Identifier: Apache-2.0
//
// Refusals by the quota that the policy gives one caller. Any thread.
#pragma once

#include <optional>
#include <string>

#include "access/meter.h"
#include "core/types.h"
#include "distlock/v1/lock.pb.h"

namespace distlock::rpc {

// nullopt: one more request of the caller is counted.
std::optional<v1::Refusal> TooFast(access::Account& account, const std::string& identity, core::Instant now);
// nullopt: the caller may ask for so many more locks. Counts nothing.
std::optional<v1::Refusal> NoRoom(const access::Account& account, const std::string& identity, size_t locks);
// The caller has as many streams as it may.
v1::Refusal TooManyStreams(const access::Account& account, const std::string& identity);

}  // namespace distlock::rpc
