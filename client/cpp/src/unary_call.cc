// SPDX-License-Identifier: Apache-2.0
#include "unary_call.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <string>
#include <vector>

#include "distlock/wire/names.h"
#include "distlock/wire/status_details.h"
#include "distlock/wire/utf8.h"
#include "tls_channel.h"

namespace distlock::internal {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void FindNotUtf8(const Message& message, const std::string& path, std::vector<FieldProblem>& problems) {
  const google::protobuf::Reflection& fields = *message.GetReflection();
  std::vector<const FieldDescriptor*> present;
  fields.ListFields(message, &present);
  for (const FieldDescriptor* field : present) {
    const bool is_text = field->type() == FieldDescriptor::TYPE_STRING;
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const int count = field->is_repeated() ? fields.FieldSize(message, field) : 1;
    for (int i = 0; i < count && (is_text || is_message); ++i) {
      const std::string name = absl::StrCat(path, field->name(), field->is_repeated() ? absl::StrCat("[", i, "]") : "");
      if (is_message) {
        FindNotUtf8(
            field->is_repeated() ? fields.GetRepeatedMessage(message, field, i) : fields.GetMessage(message, field),
            absl::StrCat(name, "."), problems);
      } else if (!wire::IsUtf8(field->is_repeated() ? fields.GetRepeatedString(message, field, i)
                                                    : fields.GetString(message, field))) {
        problems.push_back({name, kNotUtf8});
      }
    }
  }
}

// A status that is not the broker's: gRPC made it, or a proxy.
RefusalReason ReasonOf(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNAVAILABLE:
      return RefusalReason::kUnreachable;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return RefusalReason::kQuotaExceeded;
    case grpc::StatusCode::UNIMPLEMENTED:
      return RefusalReason::kNotSupported;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return RefusalReason::kInvalidArgument;
    case grpc::StatusCode::UNAUTHENTICATED:
      return RefusalReason::kUnauthenticated;
    case grpc::StatusCode::PERMISSION_DENIED:
      return RefusalReason::kPermissionDenied;
    default:
      return RefusalReason::kInternal;
  }
}

}  // namespace

std::optional<Refusal> NotUtf8(const Message& request) {
  Refusal refusal{.reason = RefusalReason::kInvalidArgument};
  FindNotUtf8(request, "", refusal.field_problems);
  if (refusal.field_problems.empty()) return std::nullopt;
  const FieldProblem& first = refusal.field_problems.front();
  refusal.message = absl::StrCat(first.field, " ", first.description);
  return refusal;
}

std::chrono::system_clock::time_point WallTimeIn(Duration patience) {
  const auto bounded = std::min<Duration>(patience, std::chrono::hours(24 * 365 * 100));
  return std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(bounded);
}

Result<Lookups::ConnectionPtr> FindBroker(Core& core, Duration patience, const std::stop_token& cancel) {
  if (OnLibraryThread()) return WouldDeadlock();
  if (auto refusal = core.Unusable()) return *std::move(refusal);
  return core.lookups().Find(patience, cancel);
}

bool IsOfBroker(const grpc::Status& status) { return !wire::ReadStatusDetails(status.error_details()).reason.empty(); }

Refusal AnswerRefusal(const grpc::Status& status, const Lookups::Connection& from) {
  Refusal refusal = ToRefusal(status);
  if (wire::RefusalReasonOf(wire::ReadStatusDetails(status.error_details()).reason)) return refusal;
  refusal.reason = ReasonOf(status.error_code());
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    refusal.message = absl::StrCat("the broker at ", from.address, " did not answer in time");
  } else if (refusal.reason == RefusalReason::kUnreachable) {
    refusal.message =
        absl::StrCat("the broker at ", from.address, ": ", ConnectFailure(from.address, status.error_message()));
  }
  return refusal;
}

}  // namespace distlock::internal
