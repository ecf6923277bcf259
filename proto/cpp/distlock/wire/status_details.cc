// SPDX-License-Identifier: Apache-2.0
#include "distlock/wire/status_details.h"

#include <cstdlib>

#include "distlock/wire/times.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace distlock::wire {
namespace {

void ReadErrorInfo(const google::rpc::ErrorInfo& info, StatusDetails& details) {
  if (info.domain() != kErrorDomain) return;
  details.reason = info.reason();
  for (const auto& [name, value] : info.metadata()) {
    if (name == "holder_id") details.holder_id = value;
    if (name == "fencing_token") details.fencing_token = std::strtoull(value.c_str(), nullptr, 10);
    if (name == "queue_length") details.queue_length = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    if (name == "blocked") details.blocked = value == "true";
  }
}

}  // namespace

StatusDetails ReadStatusDetails(std::string_view serialized) {
  StatusDetails details;
  google::rpc::Status status;
  if (serialized.empty() || !status.ParseFromArray(serialized.data(), static_cast<int>(serialized.size())))
    return details;
  google::rpc::ErrorInfo info;
  google::rpc::RetryInfo retry;
  google::rpc::BadRequest bad;
  google::rpc::ResourceInfo resource;
  for (const google::protobuf::Any& any : status.details()) {
    if (any.UnpackTo(&info)) {
      ReadErrorInfo(info, details);
    } else if (any.UnpackTo(&retry)) {
      details.retry_delay = FromProto(retry.retry_delay());
    } else if (any.UnpackTo(&resource)) {
      details.owner = resource.owner();
    } else if (any.UnpackTo(&bad)) {
      for (const auto& violation : bad.field_violations()) {
        details.field_violations.emplace_back(violation.field(), violation.description());
      }
    }
  }
  return details;
}

}  // namespace distlock::wire
