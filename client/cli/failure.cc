// SPDX-License-Identifier: Apache-2.0
#include "failure.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <cstring>

#include "json.h"
#include "printable.h"

namespace distlock::cli {
namespace {

struct ReasonExit {
  RefusalReason reason;
  int exit_code;
};

constexpr ReasonExit kReasonExits[] = {
    {RefusalReason::kLockHeld, kExitBusy},
    {RefusalReason::kWaitTimeout, kExitBusy},
    {RefusalReason::kLeaseLost, kExitLost},
    {RefusalReason::kNotHolder, kExitLost},
    {RefusalReason::kLimitMismatch, kExitBusy},
    {RefusalReason::kForeignKey, kExitUnavailable},
    {RefusalReason::kInvalidArgument, kExitUsage},
    {RefusalReason::kNotSupported, kExitUnavailable},
    {RefusalReason::kQuotaExceeded, kExitUnavailable},
    {RefusalReason::kStoreFull, kExitUnavailable},
    {RefusalReason::kStoreUnavailable, kExitUnavailable},
    {RefusalReason::kStoreHoldOff, kExitUnavailable},
    {RefusalReason::kQuorumNotReached, kExitUnavailable},
    {RefusalReason::kDraining, kExitUnavailable},
    {RefusalReason::kUnauthenticated, kExitDenied},
    {RefusalReason::kPermissionDenied, kExitDenied},
    {RefusalReason::kUnreachable, kExitUnavailable},
};

bool IsOfStore(const Failure& failure) {
  return absl::StartsWith(failure.reason, "STORE_") || failure.reason == "QUORUM_NOT_REACHED";
}

}  // namespace

int ExitCodeOf(RefusalReason reason) {
  for (const ReasonExit& row : kReasonExits) {
    if (row.reason == reason) return row.exit_code;
  }
  return kExitInternal;
}

Failure FailureFrom(const Refusal& refusal) {
  Failure failure;
  failure.reason = refusal.reason == RefusalReason::kUnreachable ? "UNAVAILABLE" : Name(refusal.reason);
  failure.message = refusal.message;
  failure.exit_code = ExitCodeOf(refusal.reason);
  if (!refusal.holders.empty()) failure.holder = refusal.holders.front().owner;
  if (refusal.retry_after) failure.retry_after = std::chrono::duration_cast<Millis>(*refusal.retry_after);
  for (const FieldProblem& problem : refusal.field_problems) {
    failure.fields.emplace_back(problem.field, problem.description);
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
  absl::StrAppend(&out, " (", Printable(failure.reason), facts.empty() ? "" : "; ", facts, ")",
                  IsOfStore(failure) ? "; distlockctl status --explain says more" : "", "\n");
  return out;
}

std::string DescribeJson(const Failure& failure) {
  Json error{{"reason", failure.reason}, {"message", failure.message}, {"exit_code", failure.exit_code}};
  if (!failure.lost_reason.empty()) error["lost_reason"] = failure.lost_reason;
  if (!failure.holder.empty()) error["holder"] = failure.holder;
  if (failure.retry_after) error["retry_after_ms"] = failure.retry_after->count();
  for (const auto& [field, problem] : failure.fields) {
    error["fields"].push_back({{"field", field}, {"problem", problem}});
  }
  return Line(Json{{"error", error}}) + "\n";
}

}  // namespace distlock::cli
