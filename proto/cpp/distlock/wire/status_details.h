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

namespace distlock::wire {

// ErrorInfo.domain of every error of a broker.
inline constexpr char kErrorDomain[] = "distlock";

struct StatusDetails {
  // ErrorInfo: a RefusalReason without its prefix. Empty: the status is not a broker's but gRPC's own or a proxy's.
  std::string reason;
  std::string holder_id;
  uint64_t fencing_token = 0;
  uint32_t queue_length = 0;
  bool blocked = false;  // nobody holds the lock, but a lock_delay keeps it taken

  std::optional<std::chrono::nanoseconds> retry_delay;                // RetryInfo
  std::vector<std::pair<std::string, std::string>> field_violations;  // BadRequest: field, description
  std::string owner;                                                  // ResourceInfo: the label of the lock's holder
};

// `serialized`: a google.rpc.Status. Details that cannot be read are left out.
StatusDetails ReadStatusDetails(std::string_view serialized);

}  // namespace distlock::wire
