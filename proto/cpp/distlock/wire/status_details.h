// SPDX-License-Identifier: Apache-2.0
//
// The google.rpc details that a broker adds to a status (grpc-status-details-bin). Pure; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "distlock/wire/status_details.pb.h"

namespace distlock::wire {

// ErrorInfo.domain of every error of a broker.
inline constexpr char kErrorDomain[] = "distlock";

struct StatusDetails {
  // ErrorInfo: a RefusalReason without its prefix. Empty: the status is not a broker's but gRPC's own or a proxy's.
  std::string reason;
  std::string holder_id;
  int64_t fencing_token = 0;
  int32_t queue_length = 0;
  std::string block_time_left;  // in seconds, such as 1.5s; "": no lock_delay keeps the lock

  std::optional<std::chrono::nanoseconds> retry_delay;                // RetryInfo
  std::vector<std::pair<std::string, std::string>> field_violations;  // BadRequest: field, description
  std::string owner;                                                  // ResourceInfo: the label of the lock's holder
};

// `serialized`: a google.rpc.Status. Details that cannot be read are left out.
StatusDetails ReadStatusDetails(std::string_view serialized);

// Packs a message of status_details.proto, or unpacks one; false: `any` is another message, or cannot be read. Their
// type is the one of google.rpc, not that of their own package.
template <typename Detail>
void PackDetail(const Detail& detail, google::protobuf::Any* any) {
  any->set_type_url("type.googleapis.com/google.rpc." + Detail::descriptor()->name());
  any->set_value(detail.SerializeAsString());
}
template <typename Detail>
bool UnpackDetail(const google::protobuf::Any& any, Detail* detail) {
  const std::string name = "/google.rpc." + Detail::descriptor()->name();
  return any.type_url().ends_with(name) && detail->ParseFromString(any.value());
}

}  // namespace distlock::wire
