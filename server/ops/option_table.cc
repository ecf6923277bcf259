// SPDX-License-Identifier: Apache-2.0
#include "ops/option_table.h"

#include <algorithm>
#include <iterator>

#include "acceptor/address.h"
#include "text/unix_address.h"

namespace distlock::ops {
namespace {

using O = Options;
using enum OptionGroup;

absl::Status CheckHttp(std::string_view value) {
  return value.empty() || value == kNowhere ? absl::OkStatus() : acceptor::ParseHostPort(value).status();
}

// HTTP is not encrypted, and a bearer token must not leave the machine so.
absl::Status CheckHttpApi(std::string_view value) {
  if (value.empty() || value == kNowhere) return absl::OkStatus();
  if (text::IsUnixAddress(value)) return acceptor::CheckListenAddress(value);
  const absl::StatusOr<acceptor::HostPort> parsed = acceptor::ParseHostPort(value);
  if (!parsed.ok() || acceptor::IsLoopback(parsed->host)) return parsed.status();
  return absl::InvalidArgumentError(
      "is not loopback and would serve locks in plain text: choose 127.0.0.1 or a unix socket, and put a proxy with "
      "TLS "
      "before it for other machines");
}

absl::Status CheckHttpHost(std::string_view value) {
  const bool is_name = value.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == value.npos;
  if (is_name && value.size() <= 253) return absl::OkStatus();
  return absl::InvalidArgumentError("is no host's name: write small letters, digits, dots and hyphens, without a port");
}

// The prefix of every key and channel. A brace in it would change the hash tag.
absl::Status CheckKeyPrefix(std::string_view value) {
  for (const char c : value) {
    if (c <= ' ' || c >= 0x7f || c == '{' || c == '}') {
      return absl::InvalidArgumentError("may hold visible ASCII only, and no { or }");
    }
  }
  if (value.empty() || value.size() > 64) return absl::InvalidArgumentError("must have 1..64 bytes");
  return absl::OkStatus();
}

absl::Status CheckNamespace(std::string_view value) {
  if (!value.empty() && value.size() <= 64) return absl::OkStatus();
  return absl::InvalidArgumentError("must be a namespace: 1 to 64 bytes");
}

absl::Status CheckTokenKeep(std::string_view value) {
  const size_t equals = value.rfind('=');
  if (equals == value.npos || equals == 0) {
    return absl::InvalidArgumentError("has no namespace: write NAMESPACE=DURATION, such as builds=10m");
  }
  absl::Duration keep;
  if (!absl::ParseDuration(std::string(value.substr(equals + 1)), &keep) || keep < absl::Minutes(1) ||
      keep > absl::Hours(24)) {
    return absl::InvalidArgumentError("must end in a duration in 1m..24h, such as builds=10m");
  }
  return absl::OkStatus();
}

absl::Status CheckHoldOff(std::string_view value) {
  absl::Duration length;
  if (value.empty() || value == "auto") return absl::OkStatus();
  if (absl::ParseDuration(std::string(value), &length) && length >= absl::ZeroDuration() && length <= absl::Hours(25)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("must be auto, 0, or a duration of at most 25h such as 30s");
}

constexpr OptionRow Action(std::string_view name, std::string_view help) {
  return {.name = name, .group = kGeneral, .help = help, .places = OptionPlaces::kNowhereElse};
}

// The table: name, group, field, default, allowed, help. Defaults and ranges are here alone; fields: options.h.
constexpr OptionRow kTable[] = {
    {"config", kGeneral, &O::config, "", "",
     "YAML file with any of the options below, named as here without the dashes", nullptr, false,
     OptionPlaces::kVariable},
    Action("print-config", "print the values in effect as YAML, passwords masked, and exit"),
    Action("version", "print the version and exit"),
    Action("help", "print the options that most brokers need, and exit"),
    Action("help-all", "print all options and limits, and exit"),

    {"listen", kServing, &O::listen, "unix:///run/distlock/distlock.sock", "",
     "where gRPC is served: unix:///path, with ?mode=0660&group=NAME for who may connect, or host:port; may be given "
     "several times",
     acceptor::CheckListenAddress},
    {"insecure-listen", kServing, &O::insecure_listen, "false", "",
     "allow --listen on addresses that other machines can reach; everybody who reaches them may take and release "
     "locks, in plain text"},
    {"tls-cert", kServing, &O::tls_cert, "", "",
     "PEM file with the broker's certificate and those that issued it; then every host:port of --listen is TLS. Read "
     "again when it changes and upon SIGHUP"},
    {"tls-key", kServing, &O::tls_key, "", "", "PEM file with the private key of --tls-cert, without a password"},
    {"tls-client-ca", kServing, &O::tls_client_ca, "", "",
     "PEM file with the authorities that clients' certificates must come from"},
    {"tls-client-auth", kServing, &O::tls_client_auth, "auto", "auto|require|optional|off",
     "whether clients need a certificate; auto: require with --tls-client-ca, else off"},
    {"tls-min-version", kServing, &O::tls_min_version, "1.3", "1.3|1.2", "oldest version of TLS that clients may use"},
    {"admin-listen", kServing, &O::admin_listen, "", "",
     "where drain, reload, force-release, store upgrade and quorum-init are served: addresses of --listen, or others, "
     "which then serve "
     "AdminService alone; may be given several times; empty: the unix "
     "sockets of --listen, and with --policy every address of it, to those whom the policy allows",
     acceptor::CheckListenAddress},
    {"reflection", kServing, &O::reflection, "auto", "auto|on|off",
     "gRPC server reflection; auto: only when every --listen is a unix socket, and without --policy and --allow-all"},
    {"http", kServing, &O::http, "127.0.0.1:9420", "",
     "where /metrics, /healthz, /readyz and the status page are served; off or empty: nowhere", CheckHttp},
    {"http-page", kServing, &O::http_page, "auto", "auto|on|off",
     "whether the status page shows held locks, with their owners; auto: only when --http is loopback"},
    {"metrics-namespace", kServing, &O::metrics_namespace, "", "",
     "a namespace whose oldest holder and longest queue have metrics of their own; may be given several times, at most "
     "20",
     CheckNamespace},
    {"http-api", kServing, &O::http_api, "", "",
     "where locks are served as JSON over HTTP: unix:///path, with ?mode= and &group= as --listen, or a loopback "
     "host:port; "
     "off or empty: nowhere",
     CheckHttpApi},
    {"http-host", kServing, &O::http_host, "", "",
     "a name of this broker in URLs of --http-api and --http, besides localhost and IP addresses; may be given several "
     "times",
     CheckHttpHost},
    {"drain-timeout", kServing, &O::drain_timeout, "30s", "0s..24h",
     "how long holders have to finish after SIGTERM before their locks are released"},
    {"death-proof", kServing, &O::death_proof, "true", "",
     "free the locks of a local process at once when the kernel says that it has ended, for clients that ask for that "
     "(Linux 6.9); false: after --validity, as those of all others"},
    {"shards", kServing, &O::shards, "1", "1..64",
     "threads that own locks, each with its own store connections; one is enough for most machines"},

    {"policy", kAccess, &O::policy, "", "",
     "file that says who may do what; with it, whatever no rule allows is refused; read again on SIGHUP and when it "
     "changes"},
    {"allow-all", kAccess, &O::allow_all, "false", "",
     "ask callers for their identities, log what --policy would deny, and refuse nothing"},
    {"token-file", kAccess, &O::token_file, "", "",
     "file of static tokens, a line name:sha256 each, as distlockctl token new prints; read again as --policy is; no "
     "variable, because DISTLOCK_TOKEN_FILE is the clients'",
     nullptr, false, OptionPlaces::kFile},
    {"jwt-keys", kAccess, &O::jwt_keys, "", "",
     "file with the JSON web key set (JWKS) that signs bearer tokens, such as those of Kubernetes service accounts; "
     "read "
     "again as --policy is"},
    {"jwt-issuer", kAccess, &O::jwt_issuer, "", "", "what such tokens must name as their issuer (iss)"},
    {"jwt-audience", kAccess, &O::jwt_audience, "", "", "what such tokens must be meant for (aud)"},
    {"audit", kAccess, &O::audit, "changes", "changes|all",
     "what is logged of access: denials, forced releases, drains and reloads, or every decision"},

    {"redis", kStore, &O::redis, "", "",
     "the store's URL: redis://, rediss:// (with ?ca= &cert= &key= &sni=), unix://, redis+sentinel:// and "
     "rediss+sentinel:// with the sentinels and the primary's name, or redis+cluster:// and rediss+cluster:// with "
     "some "
     "nodes of a Cluster; empty: an embedded server, for one machine only",
     nullptr, true},
    {"redis-user", kStore, &O::redis_user, "", "",
     "the store's ACL user, which needs a password; empty: the store's default user"},
    {"redis-password-file", kStore, &O::redis_password_file, "", "", "file whose content is the store's password"},
    {"sentinel-user", kStore, &O::sentinel_user, "", "",
     "the sentinels' ACL user, which needs a password; empty: their default user"},
    {"sentinel-password-file", kStore, &O::sentinel_password_file, "", "",
     "file whose content is the sentinels' password; empty: they want none"},
    {"embedded-server", kStore, &O::embedded_server, "", "",
     "program to start as the embedded server; empty: redis-server or valkey-server from PATH"},
    {"embedded-dir", kStore, &O::embedded_dir, "", "",
     "folder for the embedded server's socket and log; the server then outlives this daemon, and the next one with the "
     "same folder goes on with its locks (to end it: kill the pid in store.pid); empty: a private temporary one, and "
     "the server ends with this daemon"},
    {"key-prefix", kStore, &O::key_prefix, "dl", "",
     "prefix of every key in the store; brokers that share locks must use the same one", CheckKeyPrefix},
    {"namespace-token-keep", kStore, &O::namespace_token_keep, "", "",
     "NAMESPACE=DURATION: for how long after its last grant the store remembers a lock of that namespace that nobody "
     "uses, 1m..24h, instead of 24h; may be given several times. For namespaces whose names are never used again. "
     "Should the store's clock be set back by more than that, tokens of such locks may repeat",
     CheckTokenKeep},
    {"wait-for-store", kStore, &O::wait_for_store, "false", "",
     "at the start, keep trying to reach the store instead of giving up"},
    {"store-timeout", kStore, &O::store_timeout, "5s", "100ms..5m",
     "how long the store may leave a request unanswered before it is refused with STORE_UNAVAILABLE"},
    {"queue-slot", kStore, &O::queue_slot, "30s", "1s..1h",
     "how long a broker that fell silent keeps the places of its waiters in the queues"},
    {"failover-hold-off", kStore, &O::failover_hold_off, "", "",
     "for how long nobody is newly granted a lock by a server that was restarted or promoted, and so may have "
     "forgotten "
     "who holds it; renewals go on: auto (--max-ttl and what the servers' settings leave open), 0 (never: a forgotten "
     "lock may get a second holder) or a duration; empty: auto where a replica can take over, also at one address from "
     "when the server is seen to have or to have had one, else 0",
     CheckHoldOff},
    {"store-nodes", kStore, &O::store_nodes, "0", "0..64",
     "servers that may become the primary, the present one included, as --failover-hold-off auto counts them; 0: as "
     "many as are seen"},
    {"quorum-new", kStore, &O::quorum_new, "false", "",
     "count the votes of the servers of redlock:// at once instead of after --max-ttl; only for the first start, when "
     "nobody can hold a lock yet; refused when a server belongs to a quorum already"},
    {"wait-replicas", kStore, &O::wait_replicas, "0", "0..15",
     "a grant or a renewal counts only once so many replicas of the primary have confirmed it; 0: none is asked"},
    {"wait-timeout", kStore, &O::wait_timeout, "100ms", "10ms..500ms",
     "how long the replicas may take to confirm; what they have not confirmed by then is not taken for granted"},

    {"validity", kTime, &O::validity, "3s", "500ms..30s",
     "how long a client may rely on its locks after it last heard from the broker; a vanished client's locks are freed "
     "within it"},
    {"default-ttl", kTime, &O::default_ttl, "15s", "100ms..24h",
     "how long the store keeps a lock that is not renewed, for requests without a ttl"},
    {"max-ttl", kTime, &O::max_ttl, "0s", "0s..24h",
     "longest ttl a request may ask for; 0: 1h, or 30s where a replica of the store can take over, also at one address "
     "from when the server is seen to have or to have had one, since nobody is newly granted a lock for so long after "
     "a failover"},
    {"clock-drift", kTime, &O::clock_drift, "500", "0..10000",
     "how wrong the rate of any machine's clock may be, in millionths"},

    {kLimitsOption,
     kLimits,
     {},
     "",
     "",
     "a limit that --help-all lists; may be given several times; a map in the file"},
    {"min-ttl", kLimits, &O::min_ttl, "1s", "100ms..1h", "shortest ttl a request may ask for"},
    {"max-wait", kLimits, &O::max_wait, "24h", "1s..720h", "longest max_wait a request may ask for"},
    {"max-lock-delay", kLimits, &O::max_lock_delay, "60s", "0s..1h", "longest lock_delay a request may ask for"},
    {"max-min-hold", kLimits, &O::max_min_hold, "25h", "0s..25h",
     "longest min_hold a request may ask for, which blocks a lock that was released sooner; 0: none may"},
    {"max-key-bytes", kLimits, &O::max_key_bytes, "512", "1..4096", "longest key"},
    {"max-namespace-bytes", kLimits, &O::max_namespace_bytes, "64", "7..1024", "longest namespace"},
    {"max-owner-bytes", kLimits, &O::max_owner_bytes, "256", "0..4096", "longest owner label"},
    {"max-metadata-bytes", kLimits, &O::max_metadata_bytes, "1024", "0..16384", "all metadata of one request"},
    {"max-message-bytes", kLimits, &O::max_message_bytes, "65536", "65536..4194304",
     "largest gRPC message that is accepted; clients pack up to 65536"},
    {"max-leases-per-session", kLimits, &O::max_leases_per_session, "10000", "1..1000000",
     "leases and waiting requests of one session"},
    {"max-waiters-per-lock", kLimits, &O::max_waiters_per_lock, "10000", "1..1000000", "queue of one lock"},
    {"max-sessions", kLimits, &O::max_sessions, "10000", "1..1000000",
     "open Session, Hold, WatchLock and WatchLocks streams"},
    {"max-sessions-per-peer", kLimits, &O::max_sessions_per_peer, "1000", "1..1000000",
     "open Session and Hold streams of one client address, or of one user of a unix socket; WatchLock and WatchLocks "
     "streams are counted apart, up to the same number"},
    {"max-watched-locks", kLimits, &O::max_watched_locks, "1000", "1..1000000",
     "locks that one WatchLocks stream may watch"},
    {"max-prefix-watches", kLimits, &O::max_prefix_watches, "32", "0..100000",
     "open WatchLocks streams; each lists the locks of the store again and again"},
    {"max-waiting-calls", kLimits, &O::max_waiting_calls, "20000", "1..1000000",
     "Acquire calls that wait for an answer"},
    {"max-waiting-calls-per-peer", kLimits, &O::max_waiting_calls_per_peer, "1000", "1..1000000",
     "the same, of one client address or one user of a unix socket"},
    {"max-connections", kLimits, &O::max_connections, "10000", "1..1000000",
     "client connections; fewer where the limit of open files is below three times as many"},
    {"max-connections-per-peer", kLimits, &O::max_connections_per_peer, "1000", "1..1000000",
     "the same, of one IPv4 address, one /64 of IPv6, or one user of a unix socket"},
    {"new-connections-per-peer", kLimits, &O::new_connections_per_peer, "200", "1..1000000",
     "connections a second that one of these may open after its first max-connections-per-peer; others wait for up "
     "to 5s, and are then closed"},
    {"handshakes-per-second", kLimits, &O::handshakes_per_second, "200", "1..100000",
     "TLS handshakes, of one client address a tenth of it; twice as many at once; others wait as above"},
    {"max-connection-streams", kLimits, &O::max_connection_streams, "0", "0..2000000",
     "concurrent gRPC calls on one connection; one that opens more than twice as many, with a hardened gRPC an eighth "
     "more, is closed; 0: twice max-sessions-per-peer"},
    {"requests-per-second", kLimits, &O::requests_per_second, "0", "0..10000000",
     "commands of one session without heartbeats, and Acquire calls of one client address; acquires beyond it are "
     "refused; 0: no limit"},
    {"outbox-messages", kLimits, &O::outbox_messages, "256", "16..65536",
     "a Session that does not read is closed when more than so many hundred events wait for it"},
    {"mailbox-capacity", kLimits, &O::mailbox_capacity, "65536", "1024..4194304",
     "requests waiting for a shard before more are refused"},
    {"http-api-connections", kLimits, &O::http_api_connections, "1000", "1..100000",
     "connections of --http-api that are served at a time, half of them for one address or user; those beyond get 503"},
    {"keepalive-time", kLimits, &O::keepalive_time, "10s", "1s..2h",
     "a connection silent for this long is pinged; with keepalive-timeout this finds dead holders of Hold streams"},
    {"keepalive-timeout", kLimits, &O::keepalive_timeout, "5s", "100ms..1h",
     "a connection that leaves a ping unanswered for this long is dead"},
    {"min-ping-interval", kLimits, &O::min_ping_interval, "5s", "100ms..1h",
     "a connection on which a client pings more often than this is closed"},
    {"idle-timeout", kLimits, &O::idle_timeout, "10m", "1s..24h", "a connection without any call is closed after this"},
    {"quorum-node-timeout", kLimits, &O::quorum_node_timeout, "200ms", "10ms..5s",
     "of redlock://: a server that has not answered by then is not waited for"},
    {"renew-fraction", kLimits, &O::renew_fraction, "0.333", "0.1..0.5",
     "a lease is renewed when about this part of its ttl has passed"},

    {"log-level", kLog, &O::log_level, "info", "debug|info|warn|error", "least important lines shown"},
    {"log-format", kLog, &O::log_format, "text", "text|json", "one line each, on stderr"},
};

constexpr std::string_view kBasic[] = {"config",        "print-config",
                                       "version",       "help",
                                       "help-all",      "listen",
                                       "tls-cert",      "tls-key",
                                       "tls-client-ca", "http",
                                       "http-api",      "admin-listen",
                                       "drain-timeout", "policy",
                                       "allow-all",     "token-file",
                                       "jwt-keys",      "jwt-issuer",
                                       "jwt-audience",  "redis",
                                       "redis-user",    "redis-password-file",
                                       "key-prefix",    "failover-hold-off",
                                       "validity",      "default-ttl",
                                       "max-ttl",       "limits",
                                       "log-level",     "log-format"};

}  // namespace

std::span<const OptionRow> OptionTable() { return kTable; }

bool IsBasic(const OptionRow& row) { return std::ranges::find(kBasic, row.name) != std::end(kBasic); }

const OptionRow* FindOption(std::string_view name) {
  for (const OptionRow& row : kTable) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::string VariableName(std::string_view option) {
  std::string name = "DISTLOCK_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(c - 'a' + 'A');
  return name;
}

}  // namespace distlock::ops
