// SPDX-License-Identifier: Apache-2.0
//
// One call with one answer over the connection that the calls of a Client share. Blocks its thread. Any thread but the
// library's.
#pragma once

#include <google/protobuf/message.h>

#include <chrono>
#include <optional>
#include <stop_token>
#include <utility>

#include "acquirer.h"
#include "core.h"

namespace distlock::internal {

// The fault that bars a request: a text that is not UTF-8. Names each such field.
std::optional<Refusal> NotUtf8(const google::protobuf::Message& request);

// Whether the broker made it; else gRPC did, or a proxy.
bool IsOfBroker(const grpc::Status& status);

// Why a call with one answer failed. Unlike a stream's end, it is told to the caller, so a code that gRPC or a proxy
// made is named as it is.
Refusal AnswerRefusal(const grpc::Status& status, const Lookups::Connection& from);

// The deadline of a call that may take so long; the greatest one when that is beyond all clocks.
std::chrono::system_clock::time_point WallTimeIn(Duration patience);

// A broker to ask, found within `patience`.
Result<Lookups::ConnectionPtr> FindBroker(Core& core, Duration patience, const std::stop_token& cancel);

// The answer over this connection, or why there is none. `method`: of a connection, (context, request, answer) ->
// status. `patience`: unset is without end.
template <class Answer, class Request, class Method>
Result<Answer> Ask(Core& core, Lookups::Connection& connection, const Method& method, const Request& request,
                   std::optional<Duration> patience, const std::stop_token& cancel = {}) {
  if (auto refusal = NotUtf8(request)) return *std::move(refusal);
  grpc::ClientContext call;
  connection.Authorize(call);
  const std::stop_callback on_closing(core.lookups().closing(), [&] { call.TryCancel(); });
  const std::stop_callback on_cancel(cancel, [&] { call.TryCancel(); });
  if (patience) call.set_deadline(WallTimeIn(*patience));
  Answer answer;
  const grpc::Status status = method(connection, &call, request, &answer);
  if (status.ok()) return answer;
  if (auto refusal = core.Unusable()) return *std::move(refusal);
  if (cancel.stop_requested()) return CancelledRefusal();
  return AnswerRefusal(status, connection);
}

// The same over any connection: looks for a broker for as long as ClientOptions::call_timeout, and then waits as long
// for the answer, or as long as `patience` says.
template <class Answer, class Request, class Method>
Result<Answer> Call(Core& core, const Method& method, const Request& request,
                    std::optional<Duration> patience = std::nullopt) {
  const Duration timeout = core.options().call_timeout;
  const auto found = FindBroker(core, timeout, {});
  if (!found.ok()) return found.refusal();
  return Ask<Answer>(core, **found, method, request, patience.value_or(timeout));
}

}  // namespace distlock::internal
