// SPDX-License-Identifier: Apache-2.0
//
// Every option of distlockd. One table (option_table.cc) gives its name, range, default and help; the flags, the
// DISTLOCK_* variables, the YAML file, --help and --print-config all come from it. A flag beats a variable, a variable
// beats the file, the file beats the default. Options are filled once at the start and never change: share them by
// const reference. The error for a wrong option is one line that names where it was set, its value and what is allowed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ops/log.h"

namespace distlock::ops {

enum class TlsClientAuth { kAuto, kRequire, kOptional, kOff };
enum class TlsMinVersion { k13, k12 };
enum class AutoOnOff { kAuto, kOn, kOff };
enum class Audit { kChanges, kAll };

// Fields are named after the flags; the defaults are in the table alone: start from DefaultOptions().
struct Options {
  std::string config;

  // Serving
  std::vector<std::string> listen;  // unix:///path?mode=&group= or host:port, checked
  bool insecure_listen = false;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  TlsClientAuth tls_client_auth = TlsClientAuth::kAuto;  // use ClientAuth()
  TlsMinVersion tls_min_version = TlsMinVersion::k13;
  std::vector<std::string> admin_listen;  // as listen; use IsForOperators()
  AutoOnOff reflection = AutoOnOff::kAuto;
  std::string http;  // host:port, or "" for none
  AutoOnOff http_page = AutoOnOff::kAuto;
  std::string http_api;                // unix:///path or a loopback host:port, or "" for none
  std::vector<std::string> http_host;  // checked
  int64_t http_api_connections = 0;
  absl::Duration drain_timeout;
  absl::Duration keepalive_time;
  absl::Duration keepalive_timeout;
  absl::Duration min_ping_interval;
  absl::Duration idle_timeout;
  bool death_proof = true;
  int64_t shards = 0;

  // Access
  std::string policy;
  bool allow_all = false;
  std::string token_file;
  std::string jwt_keys;
  std::string jwt_issuer;
  std::string jwt_audience;
  Audit audit = Audit::kChanges;

  // Store
  std::string redis;            // "" = embedded; may hold a password: show it by RedactedUrl() only
  std::string embedded_server;  // "" = search PATH
  std::string embedded_dir;     // "" = a private temporary folder
  std::string redis_user;
  std::string redis_password_file;
  std::string sentinel_user;
  std::string sentinel_password_file;
  std::string key_prefix;
  std::vector<std::string> metrics_namespace;     // at most 20, each once
  std::vector<std::string> namespace_token_keep;  // NAMESPACE=DURATION, checked; use TokenKeeps()
  bool wait_for_store = false;
  absl::Duration store_timeout;
  absl::Duration queue_slot;
  std::string failover_hold_off;  // "", "auto" or a duration, checked
  int64_t store_nodes = 0;        // 0 = as many as are seen
  bool quorum_new = false;
  absl::Duration quorum_node_timeout;
  int64_t wait_replicas = 0;
  absl::Duration wait_timeout;

  // Time
  absl::Duration validity;
  absl::Duration default_ttl;
  double renew_fraction = 0;
  int64_t clock_drift = 0;  // parts per million

  // Limits
  absl::Duration min_ttl;
  absl::Duration max_ttl;  // 0 = by the kind of store; use LongestTtl()
  absl::Duration max_wait;
  absl::Duration max_lock_delay;
  absl::Duration max_min_hold;
  int64_t max_key_bytes = 0;
  int64_t max_namespace_bytes = 0;
  int64_t max_owner_bytes = 0;
  int64_t max_metadata_bytes = 0;
  int64_t max_message_bytes = 0;
  int64_t max_leases_per_session = 0;
  int64_t max_waiters_per_lock = 0;
  int64_t max_sessions = 0;
  int64_t max_sessions_per_peer = 0;
  int64_t max_watched_locks = 0;
  int64_t max_prefix_watches = 0;
  int64_t max_waiting_calls = 0;
  int64_t max_waiting_calls_per_peer = 0;
  int64_t max_connections = 0;
  int64_t max_connections_per_peer = 0;
  int64_t new_connections_per_peer = 0;  // per second
  int64_t handshakes_per_second = 0;
  int64_t max_connection_streams = 0;  // 0 = twice max_sessions_per_peer; use ConnectionStreams()
  int64_t outbox_messages = 0;
  int64_t mailbox_capacity = 0;
  int64_t requests_per_second = 0;  // 0 = no limit

  // Log
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;

  // max_connection_streams, with 0 resolved. Greater than max_sessions_per_peer, so that a stream beyond that limit is
  // refused with a reason instead of waiting inside gRPC, and a release is never blocked.
  int64_t ConnectionStreams() const;
  // namespace_token_keep by namespace.
  std::map<std::string, absl::Duration> TokenKeeps() const;
  // Another server may take over the store, since it is watched by Sentinels or a Cluster, or several independent
  // servers decide, of which one may forget: hold-offs are on, unless an option says otherwise.
  bool HoldsOffByDefault() const;
  absl::Duration LongestTtl() const;
  // The longest ttl at one address whose server turns out to be replicated; zero: as --max-ttl says.
  absl::Duration LongestTtlIfReplicated() const;

  // tls_client_auth, with kAuto resolved: required where there is a CA to check clients with.
  TlsClientAuth ClientAuth() const;

  // The addresses at which other machines get in without a certificate that the broker knows.
  std::vector<std::string> OpenToStrangers() const;

  // Identities are asked for: there is a policy, or allow_all.
  bool AsksIdentities() const { return allow_all || !policy.empty(); }

  // Whether drain, reload and force-release are served at this address of `listen`.
  bool IsForOperators(const std::string& address) const;

  // reflection, with kAuto resolved: on when every address is a unix socket and nobody's identity is asked for.
  bool ReflectionEnabled() const;
  // http_page, with kAuto resolved: on when --http is loopback.
  bool PageShowsLocks() const;
};

struct Invocation {
  enum class Action { kServe, kHelp, kHelpAll, kVersion, kPrintConfig };
  Action action = Action::kServe;
  Options options;                    // not filled for kHelp, kHelpAll and kVersion
  std::vector<std::string> warnings;  // one line each, to be logged or printed
};

// `args`: without the program's name. `environment`: NAME=value. Reads the YAML file and nothing else.
// InvalidArgument: the command line is wrong. FailedPrecondition: a variable, the file, or how options fit together.
absl::StatusOr<Invocation> ParseOptions(const std::vector<std::string>& args,
                                        const std::vector<std::string>& environment);

// The exit code of distlockd after a failed ParseOptions: 64 (usage) or 78 (configuration), as in sysexits.h.
int ExitCode(const absl::Status& status);

std::vector<std::string> ProcessEnvironment();

Options DefaultOptions();
std::vector<std::string_view> OptionNames();  // in the order of --help-all
std::string HelpText();                       // the options that most brokers need
std::string HelpOfAll();
std::string ConfigText(const Options& options);  // YAML that --config reads; passwords masked

}  // namespace distlock::ops
