// SPDX-License-Identifier: Apache-2.0
//
// Errors of the contract as HTTP answers. Pure; any thread.
#pragma once

#include <string>

#include "distlock/v1/lock.pb.h"
#include "distlock/wire/status_details.pb.h"
#include "http/request.h"

namespace distlock::web {

struct ReasonRow {
  v1::RefusalReason reason;
  int status;
  bool retry;  // Retry-After is sent, of at least a second
};

// README.md has this table, too; a test compares them.
inline constexpr ReasonRow kReasonRows[] = {
    {v1::REFUSAL_REASON_LOCK_HELD, 409, true},
    {v1::REFUSAL_REASON_WAIT_TIMEOUT, 409, true},
    {v1::REFUSAL_REASON_LEASE_LOST, 409, false},
    {v1::REFUSAL_REASON_NOT_HOLDER, 412, false},
    {v1::REFUSAL_REASON_LIMIT_MISMATCH, 412, false},
    {v1::REFUSAL_REASON_FOREIGN_KEY, 412, false},
    {v1::REFUSAL_REASON_INVALID_ARGUMENT, 400, false},
    {v1::REFUSAL_REASON_UNAUTHENTICATED, 401, false},
    {v1::REFUSAL_REASON_PERMISSION_DENIED, 403, false},
    {v1::REFUSAL_REASON_QUOTA_EXCEEDED, 429, true},
    {v1::REFUSAL_REASON_NOT_SUPPORTED, 501, false},
    {v1::REFUSAL_REASON_STORE_UNAVAILABLE, 503, true},
    {v1::REFUSAL_REASON_QUORUM_NOT_REACHED, 503, true},
    {v1::REFUSAL_REASON_DRAINING, 503, true},
    {v1::REFUSAL_REASON_STORE_HOLD_OFF, 503, true},
    {v1::REFUSAL_REASON_STORE_FULL, 507, false},
    // The client that could read it has left.
    {v1::REFUSAL_REASON_CANCELLED, 503, true},
};

// google.rpc.Status in JSON: code, message and details, each with its @type.
std::string StatusJson(const wire::RpcStatus& status);

http::Reply JsonReply(std::string json);
// By the reason of its ErrorInfo; without one by its code.
http::Reply ErrorReply(const wire::RpcStatus& status);
// An error that only HTTP has, as a google.rpc.Status without details.
http::Reply HttpError(int status, const std::string& message);

}  // namespace distlock::web
