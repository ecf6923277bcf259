// SPDX-License-Identifier: Apache-2.0
#include "store/redis/fitness.h"

#include <map>

#include "store/text.h"

namespace distlock::store {
namespace {

constexpr int kMinMajor = 6;
constexpr int kMinMinor = 2;

using Fields = std::map<std::string_view, std::string_view>;

Fields ParseInfo(std::string_view info) {
  Fields fields;
  for (std::string_view line : Split(info, '\n')) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos) fields.emplace(line.substr(0, colon), line.substr(colon + 1));
  }
  return fields;
}

std::string_view Get(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string_view() : found->second;
}

bool OldVersion(std::string_view version) {
  const std::vector<std::string_view> parts = Split(version, '.');
  int major = 0;
  int minor = 0;
  if (parts.size() < 2 || !ReadInt(parts[0], &major) || !ReadInt(parts[1], &minor)) return true;
  return major < kMinMajor || (major == kMinMajor && minor < kMinMinor);
}

absl::Status Judge(const Fields& fields) {
  const std::string_view mode = Get(fields, "redis_mode");
  if (mode == "sentinel") {
    return absl::UnimplementedError("it is a Sentinel, which keeps no keys; give the URL of the server itself");
  }
  if (mode == "cluster") {
    return absl::UnimplementedError(
        "it is a node of a Redis Cluster, which this version does not serve; use a single server");
  }
  const std::string_view version = Get(fields, "redis_version");
  if (OldVersion(version)) {
    return absl::FailedPreconditionError(
        Cat("its version is '", version, "'; distlock needs Redis 6.2 or Valkey 7.2, or newer"));
  }
  if (Get(fields, "loading") == "1") return absl::UnavailableError("it is still loading its data");
  if (const auto role = Get(fields, "role"); role != "master") {
    return absl::UnavailableError(Cat("its role is '", role, "', following ", Get(fields, "master_host"), ":",
                                      Get(fields, "master_port"), "; give the URL of the primary"));
  }
  const std::string_view policy = Get(fields, "maxmemory_policy");
  const std::string_view limit = Get(fields, "maxmemory");
  if (limit != "0" && policy != "noeviction") {
    return absl::FailedPreconditionError(
        Cat("its maxmemory-policy is '", policy, "' with maxmemory ", limit,
            ", which throws held locks away; run CONFIG SET maxmemory-policy noeviction, or use another server"));
  }
  return absl::OkStatus();
}

}  // namespace

Fitness JudgeFitness(std::string_view info, std::string_view save_points) {
  const Fields fields = ParseInfo(info);
  Fitness fitness{Judge(fields), {}};
  if (!fitness.status.ok()) return fitness;
  if (Get(fields, "aof_enabled") == "0" && (save_points.empty() || save_points == "?")) {
    fitness.warnings.push_back(
        save_points == "?" ? "the store writes no append-only file, and whether it saves snapshots cannot be seen "
                             "(CONFIG GET is denied): "
                             "without either, a restart forgets all locks"
                           : "the store has neither append-only file nor snapshots: when it restarts, all locks are "
                             "forgotten and may be "
                             "given again while their old holders still believe; run CONFIG SET appendonly yes");
  }
  return fitness;
}

}  // namespace distlock::store
