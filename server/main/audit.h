// SPDX-License-Identifier: Apache-2.0
//
// The audit log and the metrics of access. Denials of one caller are logged at most ten times a second, the others are
// counted and told with the next line, so that nobody fills the log. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "main/metrics.h"
#include "ops/log.h"
#include "ops/options.h"
#include "rpc/authorizer.h"

namespace distlock {

class AuditLog {
 public:
  AuditLog(Metrics& metrics, ops::Audit audit) : metrics_(metrics), audit_(audit) {}

  void OnAccess(const rpc::AccessEvent& event);

 private:
  // nullopt: say nothing now; else how many lines of this caller were held back.
  std::optional<uint64_t> Pass(std::string_view who);

  Metrics& metrics_;
  const ops::Audit audit_;

  // Guarded by mu_. By caller; forgotten together when there are too many.
  static constexpr size_t kMostCallers = 1024;
  std::mutex mu_;
  absl::flat_hash_map<std::string, std::unique_ptr<ops::LogLimit>> limits_;
  ops::LogLimit all_{absl::Milliseconds(10)};  // of all callers, who may be many
};

}  // namespace distlock
