// SPDX-License-Identifier: Apache-2.0
#include "failure.h"

#include <absl/strings/str_cat.h>

#include <cstring>

#include "distlock/wire/names.h"
#include "distlock/wire/status_details.h"
#include "json.h"
#include "printable.h"

namespace distlock::cli {
namespace {

struct ReasonExit {
  v1::RefusalReason reason;
  int exit_code;
};

constexpr ReasonExit kReasonExits[] = {
    {v1::REFUSAL_REASON_LOCK_HELD, kExitBusy},
    {v1::REFUSAL_REASON_WAIT_TIMEOUT, kExitBusy},
    {v1::REFUSAL_REASON_LEASE_LOST, kExitLost},
    {v1::REFUSAL_REASON_NOT_HOLDER, kExitLost},
    {v1::REFUSAL_REASON_LIMIT_MISMATCH, kExitUsage},
    {v1::REFUSAL_REASON_FOREIGN_KEY, kExitUnavailable},
    {v1::REFUSAL_REASON_INVALID_ARGUMENT, kExitUsage},
    {v1::REFUSAL_REASON_NOT_SUPPORTED, kExitUsage},
    {v1::REFUSAL_REASON_QUOTA_EXCEEDED, kExitUnavailable},
    {v1::REFUSAL_REASON_STORE_FULL, kExitUnavailable},
    {v1::REFUSAL_REASON_STORE_UNAVAILABLE, kExitUnavailable},
    {v1::REFUSAL_REASON_QUORUM_NOT_REACHED, kExitUnavailable},
    {v1::REFUSAL_REASON_DRAINING, kExitUnavailable},
    {v1::REFUSAL_REASON_UNAUTHENTICATED, kExitDenied},
    {v1::REFUSAL_REASON_PERMISSION_DENIED, kExitDenied},
};

struct CodeName {
  grpc::StatusCode code;
  std::string_view name;
  int exit_code;
};

// For a status without distlock details: gRPC made it, or a proxy.
constexpr CodeName kCodeNames[] = {
    {grpc::StatusCode::CANCELLED, "CANCELLED", kExitUnavailable},
    {grpc::StatusCode::INVALID_ARGUMENT, "INVALID_ARGUMENT", kExitUsage},
    {grpc::StatusCode::DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", kExitUnavailable},
    {grpc::StatusCode::UNIMPLEMENTED, "UNIMPLEMENTED", kExitUsage},
    {grpc::StatusCode::UNAVAILABLE, "UNAVAILABLE", kExitUnavailable},
    {grpc::StatusCode::RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED", kExitUnavailable},
    {grpc::StatusCode::UNAUTHENTICATED, "UNAUTHENTICATED", kExitDenied},
    {grpc::StatusCode::PERMISSION_DENIED, "PERMISSION_DENIED", kExitDenied},
};

}  // namespace

int ExitCodeOf(std::string_view reason) {
  const auto known = wire::RefusalReasonOf(reason);
  for (const ReasonExit& row : kReasonExits) {
    if (row.reason == known) return row.exit_code;
  }
  return kExitInternal;
}

Failure FailureFrom(const grpc::Status& status) {
  Failure failure;
  failure.message = status.error_message();
  wire::StatusDetails details = wire::ReadStatusDetails(status.error_details());
  failure.holder = std::move(details.owner);
  if (details.retry_delay) failure.retry_after = std::chrono::duration_cast<Millis>(*details.retry_delay);
  failure.fields = std::move(details.field_violations);
  failure.from_broker = !details.reason.empty();
  if (failure.from_broker) {
    failure.reason = std::move(details.reason);
    failure.exit_code = ExitCodeOf(failure.reason);
    return failure;
  }
  failure.reason = absl::StrCat("GRPC_", static_cast<int>(status.error_code()));
  for (const CodeName& row : kCodeNames) {
    if (row.code != status.error_code()) continue;
    failure.reason = row.name;
    failure.exit_code = row.exit_code;
  }
  return failure;
}

Failure UsageFailure(std::string message) { return OwnFailure("INVALID_ARGUMENT", std::move(message), kExitUsage); }

Failure OwnFailure(std::string reason, std::string message, int exit_code) {
  Failure failure;
  failure.reason = std::move(reason);
  failure.message = std::move(message);
  failure.exit_code = exit_code;
  failure.is_plain = true;
  return failure;
}

Failure CannotStart(int error) {
  return OwnFailure("CANNOT_START", absl::StrCat("cannot start a process: ", std::strerror(error)), kExitInternal);
}

std::string DescribeText(const Failure& failure) {
  std::string out;
  for (const auto& [field, problem] : failure.fields) {
    absl::StrAppend(&out, "distlockctl: ", Printable(field), " ", Printable(problem), "\n");
  }
  if (!out.empty()) return out;
  out = "distlockctl: ";
  absl::StrAppend(&out, Printable(failure.message.empty() ? failure.reason : failure.message));
  if (failure.is_plain) return out + "\n";
  std::string facts;
  if (!failure.holder.empty() && failure.message.find(failure.holder) == std::string::npos) {
    absl::StrAppend(&facts, "held by ", Printable(failure.holder));
  }
  if (failure.retry_after) {
    absl::StrAppend(&facts, facts.empty() ? "" : ", ", "retry after ", FormatDuration(*failure.retry_after));
  }
  absl::StrAppend(&out, " (", Printable(failure.reason), facts.empty() ? "" : "; ", facts, ")\n");
  return out;
}

std::string DescribeJson(const Failure& failure) {
  Json error;
  error.Text("reason", failure.reason).Text("message", failure.message).Number("exit_code", failure.exit_code);
  if (!failure.lost_reason.empty()) error.Text("lost_reason", failure.lost_reason);
  if (!failure.holder.empty()) error.Text("holder", failure.holder);
  if (failure.retry_after) error.Number("retry_after_ms", failure.retry_after->count());
  std::vector<Json> fields;
  for (const auto& [field, problem] : failure.fields) {
    fields.push_back(Json().Text("field", field).Text("problem", problem));
  }
  if (!fields.empty()) error.List("fields", fields);
  return Json().Object("error", error).Line() + "\n";
}

}  // namespace distlock::cli
