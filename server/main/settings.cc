// SPDX-License-Identifier: Apache-2.0
#include "main/settings.h"

#include <algorithm>

#include "contract/limits.h"
#include "core/lock_name.h"

namespace distlock {

core::Duration ToCore(absl::Duration duration) { return absl::ToChronoNanoseconds(duration); }

core::BrokerConfig BrokerConfigOf(const ops::Options& options, const core::StoreTraits& store, uint64_t seed) {
  return {.validity = ToCore(options.validity),
          .clock_drift_ppm = static_cast<uint32_t>(options.clock_drift),
          .renew_fraction = options.renew_fraction,
          .store_timeout = ToCore(options.store_timeout),
          .queue_slot = ToCore(options.queue_slot),
          .max_leases_per_session = static_cast<uint32_t>(options.max_leases_per_session),
          .store = store,
          .seed = seed};
}

std::vector<std::string> EscapedNamespaces(const std::vector<std::string>& namespaces) {
  std::vector<std::string> escaped;
  for (const std::string& name : namespaces) escaped.push_back(core::EscapeNamespace(name));
  return escaped;
}

acceptor::AcceptorOptions AcceptorOptionsOf(const ops::Options& options) {
  acceptor::AcceptorOptions acceptor{.listen = options.listen};
  acceptor.max_connections = options.max_connections;
  acceptor.peer = {.connections = static_cast<size_t>(options.max_connections_per_peer),
                   .connections_per_second = static_cast<double>(options.new_connections_per_peer),
                   .handshakes_per_second = std::max(1.0, static_cast<double>(options.handshakes_per_second) / 10)};
  acceptor.handshakes_per_second = static_cast<double>(options.handshakes_per_second);
  acceptor.calls.open_calls = static_cast<int>(2 * options.ConnectionStreams());
  // A caller that awaits many locks at once may give all of them up at once.
  acceptor.calls.early_cancels_at_once =
      std::max(acceptor.calls.early_cancels_at_once,
               static_cast<double>(options.max_waiting_calls_per_peer + options.max_sessions_per_peer));
  // Messages that gRPC has read and nobody has taken yet look unused for a moment.
  acceptor.calls.unused_bytes_at_once =
      std::max<int64_t>(acceptor.calls.unused_bytes_at_once, 32 * options.max_message_bytes);
  // A promise that was made before the end of a stream has passed by then.
  if (options.death_proof)
    acceptor.watch_processes = absl::ToChronoMilliseconds(options.validity) + std::chrono::seconds(1);
  acceptor.user_timeout = absl::ToChronoMilliseconds(options.keepalive_time + options.keepalive_timeout);
  return acceptor;
}

rpc::TlsClientAuth ClientAuthOf(const ops::Options& options) {
  switch (options.ClientAuth()) {
    case ops::TlsClientAuth::kRequire:
      return rpc::TlsClientAuth::kRequire;
    case ops::TlsClientAuth::kOptional:
      return rpc::TlsClientAuth::kOptional;
    case ops::TlsClientAuth::kAuto:
    case ops::TlsClientAuth::kOff:
      break;
  }
  return rpc::TlsClientAuth::kOff;
}

rpc::ServerOptions ServerOptionsOf(const ops::Options& options, const core::StoreTraits& store,
                                   const std::string& broker_id, rpc::CallObserver* observer) {
  rpc::ServerOptions server{.acceptor = AcceptorOptionsOf(options),
                            .admin_listen = options.admin_listen,
                            .limits = {},
                            .broker_id = broker_id,
                            .observer = observer};
  contract::Limits& limits = server.limits;
  limits.default_ttl = ToCore(options.default_ttl);
  limits.min_ttl = ToCore(options.min_ttl);
  limits.max_ttl = ToCore(options.LongestTtl());
  limits.max_wait = ToCore(options.max_wait);
  limits.max_lock_delay = ToCore(options.max_lock_delay);
  limits.max_min_hold = ToCore(options.max_min_hold);
  limits.max_key_bytes = options.max_key_bytes;
  limits.max_namespace_bytes = options.max_namespace_bytes;
  limits.max_owner_bytes = options.max_owner_bytes;
  limits.max_metadata_bytes = options.max_metadata_bytes;
  limits.max_leases_per_session = options.max_leases_per_session;
  limits.max_sessions = options.max_sessions;
  limits.max_sessions_per_peer = options.max_sessions_per_peer;
  limits.max_watched_locks = options.max_watched_locks;
  limits.max_prefix_watches = options.max_prefix_watches;
  limits.max_waiting_calls = options.max_waiting_calls;
  limits.max_waiting_calls_per_peer = options.max_waiting_calls_per_peer;
  limits.outbox_messages = options.outbox_messages;
  limits.requests_per_second = static_cast<uint32_t>(options.requests_per_second);
  limits.validity = ToCore(options.validity);
  limits.store_timeout = ToCore(options.store_timeout);
  limits.max_message_bytes = options.max_message_bytes;
  limits.has_permits = store.has_permits;

  server.max_connection_streams = static_cast<int>(options.ConnectionStreams());
  server.keepalive_time = ToCore(options.keepalive_time);
  server.keepalive_timeout = ToCore(options.keepalive_timeout);
  server.min_ping_interval = ToCore(options.min_ping_interval);
  server.tls_client_auth = ClientAuthOf(options);
  server.idle_timeout = ToCore(options.idle_timeout);
  server.reflection = options.ReflectionEnabled();
  return server;
}

}  // namespace distlock
