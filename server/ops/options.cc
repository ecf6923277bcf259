// SPDX-License-Identifier: Apache-2.0
#include "ops/options.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "acceptor/address.h"
#include "ops/option_table.h"
#include "ops/text.h"
#include "text/unix_address.h"

namespace distlock::ops {
namespace {

// By default, where a replica can take over.
constexpr absl::Duration kLongestTtlOfReplicated = absl::Seconds(30);
constexpr int kExitUsage = 64;   // EX_USAGE
constexpr int kExitConfig = 78;  // EX_CONFIG

template <typename... Parts>
absl::Status Clash(const Parts&... parts) {
  return absl::FailedPreconditionError(Cat(parts...));
}

absl::Status CheckTls(const Options& o) {
  if (o.tls_cert.empty()) {
    for (const auto& [flag, value] : {std::pair("tls-key", o.tls_key), std::pair("tls-client-ca", o.tls_client_ca)}) {
      if (!value.empty()) return Clash("--", flag, " needs --tls-cert: give the broker's certificate as well");
    }
    if (o.tls_client_auth != TlsClientAuth::kAuto) return Clash("--tls-client-auth has no effect without --tls-cert");
    return absl::OkStatus();
  }
  if (o.tls_key.empty()) return Clash("--tls-cert needs --tls-key: give the private key of the certificate");
  const bool wants_certificates = o.ClientAuth() != TlsClientAuth::kOff;
  if (wants_certificates && o.tls_client_ca.empty()) {
    return Clash("--tls-client-auth needs --tls-client-ca: name the authorities that sign clients' certificates");
  }
  if (!o.tls_client_ca.empty() && !wants_certificates) {
    return Clash("--tls-client-ca has no effect with --tls-client-auth off: remove one of the two");
  }
  const auto is_unix = [](const std::string& address) { return text::IsUnixAddress(address); };
  if (std::all_of(o.listen.begin(), o.listen.end(), is_unix) &&
      std::all_of(o.admin_listen.begin(), o.admin_listen.end(), is_unix)) {
    return Clash("--tls-cert has no effect: no --listen is host:port, and unix sockets need no TLS");
  }
  if (!o.AsksIdentities()) {
    return Clash(
        "--tls-cert needs --policy FILE, which says who may do what, or --allow-all: otherwise whoever can open a TLS "
        "connection may take and release every lock");
  }
  return absl::OkStatus();
}

absl::Status CheckAddresses(std::string_view option, const std::vector<std::string>& addresses, std::string_view what,
                            const Options& o, std::vector<std::string>* warnings) {
  std::set<std::string> seen;
  for (const std::string& address : addresses) {
    if (!seen.insert(address).second) return Clash("--", option, ": ", JsonQuoted(address), " is given twice");
    if (text::IsUnixAddress(address)) {
      if ((text::ParseUnixAddress(address).mode & 0002) == 0 || !o.policy.empty()) continue;
      warnings->push_back(Cat("--", option, ": every user of this machine reaches ", what, " through ",
                              JsonQuoted(address), ": leave the last digit of its mode 0 to keep them out"));
      continue;
    }
    const absl::StatusOr<acceptor::HostPort> parsed = acceptor::ParseHostPort(address);
    if (!parsed.ok()) return parsed.status();
    if (acceptor::IsLoopback(parsed->host) || !o.tls_cert.empty()) continue;
    if (!o.insecure_listen) {
      return Clash("--", option, ": ", JsonQuoted(address), " is not loopback and would serve ", what,
                   " in plain text to everybody who reaches it: give --tls-cert, listen on 127.0.0.1 or a unix "
                   "socket, or accept that with --insecure-listen");
    }
    warnings->push_back(Cat("--insecure-listen: ", JsonQuoted(address), " serves ", what,
                            " in plain text to everybody who reaches it"));
  }
  return absl::OkStatus();
}

absl::Status CheckListen(const Options& o, std::vector<std::string>* warnings) {
  if (o.listen.empty()) return Clash("--listen: nothing to listen on: name a unix:///path or a host:port");
  absl::Status status = CheckAddresses("listen", o.listen, "locks", o, warnings);
  status.Update(CheckAddresses("admin-listen", o.admin_listen, "drain, reload and force-release", o, warnings));
  return status;
}

absl::Status CheckAccess(const Options& o, std::vector<std::string>* warnings) {
  const bool has_jwt = !o.jwt_keys.empty();
  if (!o.AsksIdentities()) {
    const auto needs = [](std::string_view option) {
      return Clash("--", option, " needs --policy FILE, which says who may do what, or --allow-all");
    };
    if (!o.token_file.empty()) return needs("token-file");
    if (has_jwt) return needs("jwt-keys");
  }
  if (has_jwt != !o.jwt_issuer.empty() || has_jwt != !o.jwt_audience.empty()) {
    return Clash("--jwt-keys, --jwt-issuer and --jwt-audience need each other: give all three or none");
  }
  if (Contains(o.jwt_issuer, "|"))
    return Clash("--jwt-issuer: ", JsonQuoted(o.jwt_issuer), " holds a |, which no issuer may");
  if (!o.AsksIdentities()) return absl::OkStatus();
  for (const std::string& address : o.listen) {
    if (text::IsUnixAddress(address) || !o.tls_cert.empty()) continue;
    const absl::StatusOr<acceptor::HostPort> parsed = acceptor::ParseHostPort(address);
    if (!parsed.ok() || acceptor::IsLoopback(parsed->host) || o.allow_all) continue;
    return Clash(
        "--policy: ", JsonQuoted(address),
        " is plain text on addresses that other machines reach, where nothing proves who calls: rights need "
        "proof, so give --tls-cert, or listen on 127.0.0.1 or a unix socket (--insecure-listen does not help)");
  }
  if (o.allow_all) warnings->push_back("--allow-all: everybody may do everything; what --policy would deny is logged");
  if (o.reflection == AutoOnOff::kOn) {
    warnings->push_back("--reflection on: the API's description is shown to everybody who connects");
  }
  return absl::OkStatus();
}

absl::Status CheckStore(const Options& o) {
  const auto useless = [](std::string_view option, std::string_view when) {
    return Clash("--", option, " has no effect ", when, ": remove one of the two");
  };
  if (o.redis.empty()) {
    if (!o.redis_user.empty()) return Clash("--redis-user needs --redis: the embedded server has no users");
    if (!o.redis_password_file.empty())
      return Clash(
          "--redis-password-file needs --redis: the embedded server has no "
          "password");
    if (!o.sentinel_user.empty()) return Clash("--sentinel-user needs --redis with the sentinels");
    if (!o.sentinel_password_file.empty()) return Clash("--sentinel-password-file needs --redis with the sentinels");
  } else {
    if (!o.embedded_server.empty()) return useless("embedded-server", "with --redis");
    if (!o.embedded_dir.empty()) return useless("embedded-dir", "with --redis");
  }
  return absl::OkStatus();
}

absl::Status CheckTimes(const Options& o) {
  const auto text = [](absl::Duration d) { return absl::FormatDuration(d); };
  if (o.min_ttl > o.LongestTtl()) {
    return Clash("limit min-ttl: ", text(o.min_ttl), " is more than --max-ttl, which is ", text(o.LongestTtl()));
  }
  if (o.default_ttl < o.min_ttl || o.default_ttl > o.LongestTtl()) {
    return Clash("--default-ttl: ", text(o.default_ttl), " is outside of limit min-ttl..--max-ttl, which is ",
                 text(o.min_ttl), "..", text(o.LongestTtl()));
  }
  if (o.validity >= o.default_ttl) {
    return Clash("--validity: ", text(o.validity), " must be less than --default-ttl, which is ", text(o.default_ttl));
  }
  return absl::OkStatus();
}

void WarnOfHoldOff(const Options& o, std::vector<std::string>* warnings) {
  const bool holds_off = o.failover_hold_off == "auto" || (o.failover_hold_off.empty() && o.HoldsOffByDefault());
  if (holds_off && o.LongestTtl() > absl::Minutes(5)) {
    warnings->push_back(
        Cat("--failover-hold-off auto: after each restart or failover of the store nobody is newly "
            "granted a lock for as long as --max-ttl, which is ",
            absl::FormatDuration(o.LongestTtl()), ": a smaller --max-ttl makes that shorter"));
  }
}

void WarnOfStreams(const Options& o, std::vector<std::string>* warnings) {
  if (o.max_connection_streams > 0 && o.max_connection_streams <= o.max_sessions_per_peer) {
    warnings->push_back(Cat("limit max-connection-streams: ", o.max_connection_streams,
                            " is not above limit max-sessions-per-peer, which is ", o.max_sessions_per_peer,
                            ": streams beyond it hang instead of being refused"));
  }
}

}  // namespace

int64_t Options::ConnectionStreams() const {
  return max_connection_streams > 0 ? max_connection_streams : 2 * max_sessions_per_peer;
}

bool Options::HoldsOffByDefault() const {
  static constexpr absl::string_view kSchemes[] = {"redis+sentinel://", "rediss+sentinel://", "redis+cluster://",
                                                   "rediss+cluster://", "redlock://",         "redlocks://"};
  return std::any_of(std::begin(kSchemes), std::end(kSchemes),
                     [this](absl::string_view scheme) { return absl::StartsWith(redis, scheme); });
}

absl::Duration Options::LongestTtl() const {
  if (max_ttl > absl::ZeroDuration()) return max_ttl;
  return HoldsOffByDefault() ? kLongestTtlOfReplicated : absl::Hours(1);
}

absl::Duration Options::LongestTtlIfReplicated() const {
  if (max_ttl > absl::ZeroDuration() || HoldsOffByDefault()) return absl::ZeroDuration();
  return std::max(kLongestTtlOfReplicated, min_ttl);
}

TlsClientAuth Options::ClientAuth() const {
  if (tls_client_auth != TlsClientAuth::kAuto) return tls_client_auth;
  return tls_client_ca.empty() ? TlsClientAuth::kOff : TlsClientAuth::kRequire;
}

std::vector<std::string> Options::OpenToStrangers() const {
  std::vector<std::string> open;
  if (!tls_cert.empty() && ClientAuth() == TlsClientAuth::kRequire) return open;
  for (const auto* addresses : {&listen, &admin_listen}) {
    for (const std::string& address : *addresses) {
      const absl::StatusOr<acceptor::HostPort> at = acceptor::ParseHostPort(address);
      const bool is_known = std::find(open.begin(), open.end(), address) != open.end();
      if (!text::IsUnixAddress(address) && at.ok() && !acceptor::IsLoopback(at->host) && !is_known)
        open.push_back(address);
    }
  }
  return open;
}

bool Options::IsForOperators(const std::string& address) const {
  // A policy that is enforced says who may, wherever he calls from.
  if (admin_listen.empty()) return text::IsUnixAddress(address) || (!policy.empty() && !allow_all);
  return std::find(admin_listen.begin(), admin_listen.end(), address) != admin_listen.end();
}

bool Options::ReflectionEnabled() const {
  if (reflection != AutoOnOff::kAuto) return reflection == AutoOnOff::kOn;
  return !AsksIdentities() &&
         std::all_of(listen.begin(), listen.end(), [](const std::string& a) { return text::IsUnixAddress(a); });
}

bool Options::PageShowsLocks() const {
  if (http_page != AutoOnOff::kAuto) return http_page == AutoOnOff::kOn;
  const absl::StatusOr<acceptor::HostPort> at = acceptor::ParseHostPort(http);
  return at.ok() && acceptor::IsLoopback(at->host);
}

std::map<std::string, absl::Duration> Options::TokenKeeps() const {
  std::map<std::string, absl::Duration> keeps;
  for (const std::string& entry : namespace_token_keep) {
    const size_t equals = entry.rfind('=');
    absl::ParseDuration(entry.substr(equals + 1), &keeps[entry.substr(0, equals)]);
  }
  return keeps;
}

// Each has series of its own, at every broker.
absl::Status CheckMetrics(const Options& o) {
  constexpr size_t kMost = 20;
  const auto& names = o.metrics_namespace;
  if (names.size() > kMost) return Clash("--metrics-namespace names ", names.size(), " namespaces, at most ", kMost);
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::count(names.begin(), names.end(), names[i]) > 1) {
      return Clash("--metrics-namespace names '", names[i], "' twice");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTogether(const Options& options, std::vector<std::string>* warnings) {
  absl::Status status = CheckListen(options, warnings);
  status.Update(CheckTls(options));
  status.Update(CheckAccess(options, warnings));
  status.Update(CheckStore(options));
  status.Update(CheckTimes(options));
  status.Update(CheckMetrics(options));
  WarnOfStreams(options, warnings);
  WarnOfHoldOff(options, warnings);
  return status;
}

Options DefaultOptions() {
  Options options;
  for (const OptionRow& row : OptionTable()) {
    [[maybe_unused]] const absl::Status status = SetOption(row, {std::string(row.fallback)}, &options);
    assert(status.ok());
  }
  return options;
}

std::vector<std::string> ProcessEnvironment() {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) result.emplace_back(*entry);
  return result;
}

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitConfig;
}

}  // namespace distlock::ops
