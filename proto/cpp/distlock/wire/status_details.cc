// SPDX-License-Identifier: Apache-2.0
#include "distlock/wire/status_details.h"

#include <cstdlib>

#include "distlock/wire/times.h"

namespace distlock::wire {
namespace {

void ReadErrorInfo(const ErrorInfo& info, StatusDetails& details) {
  if (info.domain() != kErrorDomain) return;
  details.reason = info.reason();
  for (const auto& [name, value] : info.metadata()) {
    if (name == "holder_id") details.holder_id = value;
    if (name == "fencing_token") details.fencing_token = std::strtoll(value.c_str(), nullptr, 10);
    if (name == "queue_length") details.queue_length = static_cast<int32_t>(std::strtol(value.c_str(), nullptr, 10));
    if (name == "block_time_left") details.block_time_left = value;
  }
}

}  // namespace

StatusDetails ReadStatusDetails(std::string_view serialized) {
  StatusDetails details;
  RpcStatus status;
  if (serialized.empty() || !status.ParseFromArray(serialized.data(), static_cast<int>(serialized.size())))
    return details;
  ErrorInfo info;
  RetryInfo retry;
  BadRequest bad;
  ResourceInfo resource;
  for (const google::protobuf::Any& any : status.details()) {
    if (UnpackDetail(any, &info)) {
      ReadErrorInfo(info, details);
    } else if (UnpackDetail(any, &retry)) {
      details.retry_delay = FromProto(retry.retry_delay());
    } else if (UnpackDetail(any, &resource)) {
      details.owner = resource.owner();
    } else if (UnpackDetail(any, &bad)) {
      for (const auto& violation : bad.field_violations()) {
        details.field_violations.emplace_back(violation.field(), violation.description());
      }
    }
  }
  return details;
}

}  // namespace distlock::wire
