// SPDX-License-Identifier: Apache-2.0
#include "web/answers.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/status/status.h"
#include "distlock/wire/names.h"
#include "distlock/wire/status_details.h"
#include "text/text.h"
#include "web/messages.h"

namespace distlock::web {
namespace {

using text::Cat;

constexpr char kTypeHead[] = "type.googleapis.com/";

// A detail of google.rpc under the name of ours.
template <typename Detail>
std::optional<std::string> Detailed(const google::protobuf::Any& any) {
  Detail detail;
  if (!wire::UnpackDetail(any, &detail)) return std::nullopt;
  return ToJson(detail, Fill::kSet);
}

// Without what the other parts of the answer say.
std::string RefusalJson(v1::Refusal refusal, const wire::RpcStatus& status) {
  if (refusal.message() == status.message()) refusal.clear_message();
  wire::RetryInfo retry;
  wire::BadRequest bad;
  for (const auto& any : status.details()) {
    if (wire::UnpackDetail(any, &retry)) refusal.clear_retry_after();
    if (wire::UnpackDetail(any, &bad)) refusal.clear_field_problems();
  }
  return ToJson(refusal, Fill::kSet);
}

std::string DetailJson(const google::protobuf::Any& any, const wire::RpcStatus& status) {
  std::optional<std::string> json = Detailed<wire::ErrorInfo>(any);
  if (!json) json = Detailed<wire::RetryInfo>(any);
  if (!json) json = Detailed<wire::BadRequest>(any);
  if (!json) json = Detailed<wire::ResourceInfo>(any);
  if (v1::Refusal refusal; !json && any.UnpackTo(&refusal)) json = RefusalJson(refusal, status);
  if (!json) return "";
  const std::string rest = json->size() > 2 ? Cat(",", json->substr(1)) : "}";
  return Cat("{\"@type\":", Quoted(any.type_url()), rest);
}

// The HTTP status of one without a reason; most are gRPC's own.
int HttpStatusOf(int code) {
  switch (static_cast<absl::StatusCode>(code)) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
      return 503;
    default:
      return 500;
  }
}

// The other way, of what only HTTP has.
absl::StatusCode CodeOf(int status) {
  switch (status) {
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 500:
      return absl::StatusCode::kInternal;
    case 501:
      return absl::StatusCode::kUnimplemented;
    case 503:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInvalidArgument;
  }
}

int RetrySeconds(const wire::StatusDetails& details) {
  if (!details.retry_delay) return 1;
  const auto up = std::chrono::ceil<std::chrono::seconds>(*details.retry_delay).count();
  return static_cast<int>(std::clamp<int64_t>(up, 1, 86'400));
}

}  // namespace

std::string StatusJson(const wire::RpcStatus& status) {
  std::string details;
  for (const auto& any : status.details()) {
    const std::string one = DetailJson(any, status);
    if (!one.empty()) text::Append(details, details.empty() ? "" : ",", one);
  }
  return Cat("{\"code\":", status.code(), ",\"message\":", Quoted(status.message()), ",\"details\":[", details, "]}");
}

http::Reply JsonReply(std::string json) {
  json += '\n';
  return {.type = "application/json",
          .body = std::move(json),
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

http::Reply ErrorReply(const wire::RpcStatus& status) {
  http::Reply reply = JsonReply(StatusJson(status));
  const wire::StatusDetails details = wire::ReadStatusDetails(status.SerializeAsString());
  const auto reason = wire::RefusalReasonOf(details.reason);
  const auto* const row = std::find_if(std::begin(kReasonRows), std::end(kReasonRows),
                                       [&](const ReasonRow& one) { return reason && one.reason == *reason; });
  const bool known = row != std::end(kReasonRows);
  reply.status = known ? row->status : HttpStatusOf(status.code());
  if (known ? row->retry : reply.status == 503 || reply.status == 429) {
    reply.headers.emplace_back("Retry-After", std::to_string(RetrySeconds(details)));
  }
  if (reply.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"distlock\"");
  return reply;
}

http::Reply HttpError(int status, const std::string& message) {
  wire::RpcStatus error;
  error.set_code(static_cast<int>(CodeOf(status)));
  error.set_message(message);
  http::Reply reply = JsonReply(StatusJson(error));
  reply.status = status;
  return reply;
}

}  // namespace distlock::web
