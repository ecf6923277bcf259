// SPDX-License-Identifier: Apache-2.0
#include "main/store_setup.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "contract/ids.h"
#include "contract/sha256.h"
#include "core/lock_name.h"
#include "main/settings.h"
#include "ops/log.h"
#include "ops/secrets.h"
#include "store/open_store.h"

namespace distlock {
namespace {

constexpr absl::Duration kRetryCheck = absl::Seconds(1);

absl::Status UseEmbedded(const ops::Options& options, StoreSetup& setup) {
  if (options.wait_replicas > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--wait-replicas is ", options.wait_replicas,
                     ", but the embedded store has no replicas: remove it, or set --redis"));
  }
  const bool outlives = !options.embedded_dir.empty();
  // The embedded server changes its working directory before it opens anything.
  const std::string dir = outlives ? std::filesystem::absolute(options.embedded_dir).string() : "";
  auto started = store::EmbeddedServer::Start({.server = options.embedded_server, .dir = dir, .outlives = outlives});
  if (!started.ok()) return started.status();
  setup.embedded = *std::move(started);
  setup.options.url = setup.embedded->Url();
  setup.shown = "embedded";
  ops::Info(setup.embedded->found_again() ? "embedded store found again" : "embedded store started",
            {{"folder", setup.embedded->dir()},
             {"pid", setup.embedded->pid()},
             {"note", outlives ? "for this machine only; it outlives this daemon, and the next one with this "
                                 "--embedded-dir goes on with its locks. Use --redis to share locks"
                               : "for this machine only; its locks end with this daemon, unless --embedded-dir is "
                                 "given. Use --redis to share locks"}});
  return absl::OkStatus();
}

// The log-in of `user` with the password in `file`, which is read again at each connect, so that a rotated password
// works without a restart.
absl::StatusOr<std::function<store::Credentials()>> LogInFrom(const std::string& user, const std::string& file) {
  auto password = ops::ReadSecretFile(file);
  if (!password.ok()) return absl::InvalidArgumentError(password.status().message());
  return [user, first = *std::move(password), file] {
    auto now = ops::ReadSecretFile(file);
    return store::Credentials{user, now.ok() ? *std::move(now) : first};
  };
}

absl::Status UseSentinels(const ops::Options& options, StoreSetup& setup) {
  const bool logs_in = !options.sentinel_user.empty() || !options.sentinel_password_file.empty();
  if (setup.options.url.topology != store::StoreUrl::Topology::kSentinel) {
    if (!logs_in) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--sentinel-user and --sentinel-password-file have no effect with --redis ", setup.shown,
                     ", which names no sentinels: remove them, or write redis+sentinel://host,host,host/name"));
  }
  setup.options.few_sentinels_suffice = !options.wait_for_store;
  if (options.sentinel_password_file.empty()) {
    if (!logs_in) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--sentinel-user '", options.sentinel_user, "' has no password: set --sentinel-password-file"));
  }
  auto log_in = LogInFrom(options.sentinel_user, options.sentinel_password_file);
  if (!log_in.ok()) return log_in.status();
  setup.options.sentinel_credentials = *std::move(log_in);
  return absl::OkStatus();
}

store::HoldOffOptions HoldOffOf(const ops::Options& options, const store::StoreOptions& store) {
  using Kind = store::HoldOffOptions::Kind;
  using Topology = store::StoreUrl::Topology;
  const Topology topology = store.url.topology;
  const core::StoreTraits traits = store::TraitsOf(store);
  store::HoldOffOptions hold_off{.longest_ttl = ToCore(options.LongestTtl()),
                                 .nodes = static_cast<int>(options.store_nodes),
                                 .can_fail_over = traits.can_fail_over,
                                 .has_all_locks = topology == Topology::kSingle || topology == Topology::kSentinel};
  const bool by_default = traits.can_fail_over || traits.is_quorum;
  absl::Duration fixed;
  if (options.failover_hold_off == "auto" || (options.failover_hold_off.empty() && by_default)) {
    hold_off.kind = Kind::kAuto;
  } else if (options.failover_hold_off.empty()) {
    if (options.redis.empty()) return hold_off;  // the embedded server is on this machine alone
    hold_off.kind = Kind::kIfReplicated;
    hold_off.longest_ttl_if_replicated = ToCore(options.LongestTtlIfReplicated());
  } else if (absl::ParseDuration(options.failover_hold_off, &fixed) && fixed > absl::ZeroDuration()) {
    hold_off.kind = Kind::kFixed;
    hold_off.fixed = ToCore(fixed);
  }
  return hold_off;
}

absl::Status UseUrl(const ops::Options& options, StoreSetup& setup) {
  setup.shown = ops::RedactedUrl(options.redis);
  auto url = ReadStoreUrl(options);
  if (!url.ok()) return url.status();
  setup.options.url = *std::move(url);
  if (auto status = UseSentinels(options, setup); !status.ok()) return status;
  if (!options.redis_user.empty()) setup.options.url.user = options.redis_user;
  if (options.redis_password_file.empty()) {
    // The store's client sends no user without a password, so that the store would treat the broker as its default
    // user.
    if (setup.options.url.user.empty() || !setup.options.url.password.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--redis-user '", options.redis_user,
                     "' has no password: set --redis-password-file, or write redis://:password@host in --redis"));
  }
  auto log_in = LogInFrom(setup.options.url.user, options.redis_password_file);
  if (!log_in.ok()) return log_in.status();
  setup.options.url.password = (*log_in)().password;
  setup.options.credentials = *std::move(log_in);
  return absl::OkStatus();
}

absl::Status CheckQuorumOptions(const ops::Options& options, const StoreSetup& setup) {
  if (setup.options.url.topology == store::StoreUrl::Topology::kQuorum || !options.quorum_new) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--quorum-new is for a quorum of independent servers, but the store is ", setup.shown,
                   ": write --redis redlock://host,host,host"));
}

// Tests let one build stand for two releases: "1-2" reads the schemas 1 to 2.
void PlayAnotherRelease(store::SchemaOptions& schema) {
  const char* range = std::getenv("DISTLOCK_TEST_SCHEMA");
  if (range == nullptr) return;
  const std::pair<std::string, std::string> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
  store::SchemaOptions played = schema;
  if (absl::SimpleAtoi(ends.first, &played.oldest) && absl::SimpleAtoi(ends.second, &played.newest)) schema = played;
}

// A quorum has its id from what all its brokers are told, because a server that turns out to belong to another one must
// not be given an id.
void SetStoreId(StoreSetup& setup) {
  store::SchemaOptions& schema = setup.options.locks.schema;
  const store::StoreUrl& url = setup.options.url;
  const auto hex = [](const std::string& id) { return std::strtoull(id.c_str(), nullptr, 16); };
  if (url.topology != store::StoreUrl::Topology::kQuorum) {
    schema.new_id = hex(contract::RandomHex(8));
    schema.several_have_id = url.topology == store::StoreUrl::Topology::kCluster;
    return;
  }
  std::vector<std::string> about{setup.options.locks.key_prefix};
  for (const store::ServerAddress& server : url.servers) about.push_back(server.Text());
  std::sort(about.begin() + 1, about.end());
  const auto digest = contract::Sha256(absl::StrJoin(about, "\n"));
  *schema.id = hex(absl::BytesToHexString(std::string(reinterpret_cast<const char*>(digest.data()), 8)));
}

void SetSchema(StoreSetup& setup) {
  store::SchemaOptions& schema = setup.options.locks.schema;
  schema.task = store::SchemaTask::kServe;
  schema.known = std::make_shared<std::atomic<uint32_t>>(0);
  schema.id = std::make_shared<std::atomic<uint64_t>>(0);
  PlayAnotherRelease(schema);
}

// Nothing is written to servers of another quorum, so that they go on showing when its own brokers were there.
store::StoreOptions OptionsOfCheck(const StoreSetup& setup) {
  store::StoreOptions options = setup.options;
  const bool is_quorum = options.url.topology == store::StoreUrl::Topology::kQuorum;
  if (is_quorum) options.locks.schema.task = store::SchemaTask::kLook;
  return options;
}

}  // namespace

absl::StatusOr<store::StoreUrl> ReadStoreUrl(const ops::Options& options) {
  auto url = store::ParseStoreUrl(options.redis);
  if (url.ok()) return url;
  return absl::Status(url.status().code(),
                      absl::StrCat("--redis ", ops::RedactedUrl(options.redis), ": ", url.status().message()));
}

absl::Status CheckAlive(store::EmbeddedServer* embedded) {
  if (embedded == nullptr || embedded->Running()) return absl::OkStatus();
  return absl::AbortedError("the embedded store ended by itself and its locks are gone; its log ends with: " +
                            embedded->LogTail());
}

absl::StatusOr<StoreSetup> PrepareStore(const ops::Options& options, const std::string& broker_id, Wakeups& wakeups) {
  StoreSetup setup;
  setup.options.locks = {.key_prefix = options.key_prefix,
                         .broker_id = broker_id,
                         .queue_slot = ToCore(options.queue_slot),
                         .clock_drift_ppm = static_cast<uint32_t>(options.clock_drift),
                         .max_waiters = static_cast<uint32_t>(options.max_waiters_per_lock)};
  for (const auto& [name, keep] : options.TokenKeeps()) {
    setup.options.locks.token_keep_of[core::EscapeNamespace(name)] = ToCore(keep);
  }
  SetSchema(setup);
  absl::Status chosen = options.redis.empty() ? UseEmbedded(options, setup) : UseUrl(options, setup);
  if (!chosen.ok()) return chosen;
  if (absl::Status fits = CheckQuorumOptions(options, setup); !fits.ok()) return fits;
  SetStoreId(setup);
  setup.options.usual_ttl = ToCore(options.default_ttl);
  setup.options.wait_replicas = static_cast<int>(options.wait_replicas);
  setup.options.wait_timeout = ToCore(options.wait_timeout);
  setup.options.quorum_is_new = options.quorum_new;
  setup.options.node_timeout = ToCore(options.quorum_node_timeout);
  setup.options.locks.hold_off = HoldOffOf(options, setup.options);
  setup.may_open = std::make_shared<std::atomic<bool>>(false);
  setup.is_replicated = std::make_shared<std::atomic<bool>>(false);
  setup.options.on_replicated = [seen = setup.is_replicated] { *seen = true; };

  const auto warn = [](const absl::Status& problem) {
    static ops::LogLimit limit(absl::Seconds(10));
    if (limit.Pass()) ops::Warn("waiting for the store", {{"error", std::string(problem.message())}});
  };
  bool told_to_stop = false;
  // Checks the embedded server on every wakeup, so a SIGCHLD that was read earlier cannot be lost.
  const auto over = [&](absl::Duration patience) {
    told_to_stop = told_to_stop || wakeups.Wait(patience) == Wake::kStop;
    return told_to_stop || !CheckAlive(setup.embedded.get()).ok();
  };
  store::CheckWatch watch{.on_problem = nullptr, .stopped = [&over] { return over(absl::ZeroDuration()); }};
  if (options.wait_for_store) watch.on_problem = warn;
  while (true) {
    const auto checked = store::CheckStore(OptionsOfCheck(setup), ToCore(options.store_timeout), watch);
    if (absl::IsAlreadyExists(checked.status()) && !told_to_stop) {
      setup.awaits_init = std::string(checked.status().message());
      break;
    }
    // The first connection reports its warnings again.
    if (checked.ok() && !told_to_stop) break;
    const bool may_retry = absl::IsUnavailable(checked.status()) && options.wait_for_store;
    if (may_retry) warn(checked.status());
    const bool ended = over(may_retry ? kRetryCheck : absl::ZeroDuration());
    if (told_to_stop) return absl::CancelledError("stopped while waiting for the store");
    if (ended) return CheckAlive(setup.embedded.get());
    if (!may_retry) return checked.status();
  }
  // The check has marked the servers. Were they all emptied later, that would not be the first start.
  setup.options.quorum_is_new = false;
  setup.options.on_problem = [](const absl::Status& problem) {
    ops::Warn("store problem", {{"error", std::string(problem.message())}});
  };
  return setup;
}

std::function<std::unique_ptr<store::Store>(int shard, uv_loop_t* loop)> StoreFactory(const StoreSetup& setup) {
  return [&setup](int shard, uv_loop_t* loop) {
    store::StoreOptions options = setup.options;
    options.locks.broker_id = contract::ShardBrokerId(options.locks.broker_id, shard);
    options.seed = static_cast<uint64_t>(shard) + 1;
    if (shard != 0) options.on_node_status = nullptr;
    // Only shard 0 logs warnings, as all shards have the same. For an embedded store its start has logged them already.
    if (shard == 0 && setup.embedded == nullptr) {
      options.on_warning = [](const std::string& warning) { ops::Warn("store", {{"warning", warning}}); };
    }
    if (setup.awaits_init.empty()) return store::OpenStore(loop, options);
    return store::OpenStoreLater(loop, std::move(options), setup.awaits_init,
                                 [may = setup.may_open] { return may->load(); });
  };
}

}  // namespace distlock
