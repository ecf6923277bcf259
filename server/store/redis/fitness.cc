// SPDX-License-Identifier: Apache-2.0
#include "store/redis/fitness.h"

#include <array>

#include "store/text.h"

namespace distlock::store {
namespace {

constexpr int kMinMajor = 6;
constexpr int kMinMinor = 2;
constexpr char kOrHoldOff[] =
    ", or set --failover-hold-off auto, and --max-ttl to your longest ttl: for so long nobody is newly granted a lock "
    "after a restart of the store, and once when it is first used";

bool OldVersion(std::string_view version) {
  const std::vector<std::string_view> parts = Split(version, ".");
  int major = 0;
  int minor = 0;
  if (parts.size() < 2 || !ReadInt(parts[0], &major) || !ReadInt(parts[1], &minor)) return true;
  return major < kMinMajor || (major == kMinMajor && minor < kMinMinor);
}

absl::Status Judge(const ServerInfo& info, bool of_cluster) {
  // Redis and Valkey name the field differently.
  const std::string_view mode = info.Get(info.Get("redis_mode").empty() ? "server_mode" : "redis_mode");
  if (mode == "sentinel") {
    return absl::UnimplementedError(
        "it is a Sentinel, which keeps no keys; to follow the primary it watches, write "
        "redis+sentinel://host:port,host:port/name with all sentinels and the primary's name");
  }
  if (mode == "cluster" && !of_cluster) {
    return absl::UnimplementedError(
        "it is a node of a Cluster and has only some of the locks; write redis+cluster://host:port,host:port with some "
        "of its nodes, or rediss+cluster:// over TLS");
  }
  if (mode != "cluster" && of_cluster) {
    return absl::UnimplementedError(
        "it is not a node of a Cluster; for one server write redis://host:port, or rediss:// over TLS");
  }
  const std::string_view version = info.Version();
  if (OldVersion(version)) {
    return absl::FailedPreconditionError(
        Cat("its version is '", version, "'; distlock needs Redis 6.2 or Valkey 7.2, or newer"));
  }
  if (info.Get("loading") == "1") return absl::UnavailableError("it is still loading its data");
  if (const auto role = info.Get("role"); role != "master") {
    return absl::UnavailableError(Cat("its role is '", role, "', following ", info.Get("master_host"), ":",
                                      info.Get("master_port"), "; give the URL of the primary"));
  }
  // Refused whatever maxmemory is now: an operator may set it later, while locks are held.
  const std::string misfit = MisfitOfPolicy(info.Get("maxmemory_policy"));
  if (!misfit.empty()) return absl::FailedPreconditionError(misfit);
  return absl::OkStatus();
}

}  // namespace

std::string MisfitOfPolicy(std::string_view maxmemory_policy) {
  if (maxmemory_policy == "noeviction") return "";
  return Cat("its maxmemory-policy is '", maxmemory_policy,
             "', which throws held locks away once memory is short; run CONFIG SET maxmemory-policy noeviction, or use "
             "another server");
}

bool ScriptsPassMinReplicas(std::string_view version) {
  const std::vector<std::string_view> parts = Split(version, ".");
  std::array<int, 3> numbers{};
  for (size_t i = 0; i < numbers.size() && i < parts.size(); ++i) {
    if (!ReadInt(parts[i], &numbers[i])) return true;
  }
  // There is no Redis 6.3: what says so is a fork, whose scripts may write.
  return numbers < std::array{6, 2, 7} || (numbers[0] == 6 && numbers[1] > 2);
}

bool AppendSettings::KeepsAll() const {
  return appendonly == "yes" && appendfsync == "always" && no_fsync_on_rewrite == "no";
}

std::string AskAppendSettings() { return MakeCommand({"CONFIG", "GET", "*append*"}); }

AppendSettings ReadAppendSettings(const redisReply& reply) {
  AppendSettings settings;
  if (IsError(reply)) return settings;
  const ReplyArray pairs(reply);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::string_view name = pairs.String(i).value_or("");
    const std::string value(pairs.String(i + 1).value_or("?"));
    if (name == "appendonly") settings.appendonly = value;
    if (name == "appendfsync") settings.appendfsync = value;
    if (name == "no-appendfsync-on-rewrite") settings.no_fsync_on_rewrite = value;
  }
  return settings;
}

Fitness JudgeFitness(const ServerInfo& info, std::string_view save_points, bool of_cluster,
                     const AppendSettings& appends) {
  Fitness fitness{Judge(info, of_cluster), {}};
  if (!fitness.status.ok()) return fitness;
  if (info.Get("aof_enabled") == "0" && save_points == "?") {
    fitness.warnings.push_back(
        "the store writes no append-only file, and whether it saves snapshots cannot be seen (CONFIG GET is denied): "
        "without either, a restart forgets all locks");
  } else if (info.Get("aof_enabled") == "0" && save_points.empty()) {
    fitness.warnings.push_back(
        Cat("the store has neither append-only file nor snapshots: when it restarts, all locks are forgotten and may "
            "be given again while their old holders still believe; run CONFIG SET appendonly yes, which counts from "
            "when INFO persistence shows aof_rewrite_scheduled:0 and aof_rewrite_in_progress:0",
            kOrHoldOff));
  }
  if (info.Get("aof_enabled") != "1") return fitness;
  if (appends.appendfsync != "always" && appends.appendfsync != "?") {
    fitness.warnings.push_back(
        Cat("the store's append-only file has appendfsync ", appends.appendfsync,
            ": a power failure forgets the locks of the last moments, and they may be given again while their old "
            "holders still believe; run CONFIG SET appendfsync always",
            kOrHoldOff));
  }
  if (appends.no_fsync_on_rewrite == "yes") {
    fitness.warnings.push_back(
        Cat("the store has no-appendfsync-on-rewrite yes: a power failure while it rewrites its append-only file or "
            "saves a snapshot forgets the locks since that began, and they may be given again while their old holders "
            "still believe; run CONFIG SET no-appendfsync-on-rewrite no",
            kOrHoldOff));
  }
  return fitness;
}

}  // namespace distlock::store
