// SPDX-License-Identifier: Apache-2.0
//
// One call with one answer over the connection that the calls of a Client share. Blocks its thread. Any thread but the
// library's.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "acquirer.h"
#include "core.h"

namespace distlock::internal {

inline constexpr Duration kCallPatience = std::chrono::seconds(5);

// The answer, or why there is none. `method`: of a connection, (context, request, answer) -> status. `patience`: unset
// is without end.
template <class Answer, class Request, class Method>
Result<Answer> Call(Core& core, const Method& method, const Request& request,
                    std::optional<Duration> patience = kCallPatience, const std::stop_token& cancel = {}) {
  if (Core::OnLibraryThread()) return WouldDeadlock();
  if (auto refusal = core.Unusable()) return *std::move(refusal);
  const std::shared_ptr<Lookups::Connection> connection = core.lookups().Connect();
  if (connection == nullptr) return ClosedRefusal();
  grpc::ClientContext call;
  const std::stop_callback on_closing(core.lookups().closing(), [&] { call.TryCancel(); });
  const std::stop_callback on_cancel(cancel, [&] { call.TryCancel(); });
  if (patience) {
    call.set_deadline(std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(*patience));
  }
  call.set_wait_for_ready(true);
  Answer answer;
  const grpc::Status status = method(*connection, &call, request, &answer);
  if (status.ok()) return answer;
  if (auto refusal = core.Unusable()) return *std::move(refusal);
  if (cancel.stop_requested())
    return Refusal{.reason = RefusalReason::kCancelled, .message = "cancelled by the caller"};
  return ToRefusal(status);
}

}  // namespace distlock::internal
