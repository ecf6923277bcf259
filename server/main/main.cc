// SPDX-License-Identifier: Apache-2.0
//
// distlockd: the life of the process, in order.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "acceptor/listeners.h"
#include "contract/ids.h"
#include "main/access_files.h"
#include "main/audit.h"
#include "main/drainer.h"
#include "main/http_face.h"
#include "main/http_pages.h"
#include "main/recorder.h"
#include "main/reload.h"
#include "main/settings.h"
#include "main/store_changes.h"
#include "main/store_setup.h"
#include "main/supervisor.h"
#include "main/tls_reload.h"
#include "main/wakeups.h"
#include "ops/http.h"
#include "ops/log.h"
#include "ops/options.h"
#include "rpc/frame_defence.h"
#include "rpc/grpc_log.h"
#include "rpc/server.h"
#include "shard/boot_clock.h"
#include "store/open_store.h"

namespace distlock {
namespace {

constexpr core::Duration kStoreUpGrace = std::chrono::seconds(10);
constexpr core::Duration kStopGrace = std::chrono::seconds(1);
constexpr int64_t kDefaultMaxConnections = 10'000;  // of the option's table

int Fail(const absl::Status& status, int exit_code) {
  ops::Error("distlockd cannot serve", {{"error", std::string(status.message())}});
  return exit_code;
}

// The exit code tells a store that may come back from one that needs other options or another server.
int StoreExitCode(const absl::Status& status) {
  if (absl::IsAborted(status)) return kExitStoreDied;
  const bool misconfigured = absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
                             absl::IsFailedPrecondition(status) || absl::IsNotFound(status);
  return misconfigured ? kExitConfiguration : kExitStoreUnavailable;
}

// The policy, the encryption of callers, and the reloader of the files of both.
struct Access {
  Access(const ops::Options& options, Metrics& metrics, Wakeups& wakeups)
      : audit(metrics, options.audit),
        authorizer({.asks = options.AsksIdentities(),
                    .allow_all = options.allow_all,
                    .on_access = [this](const rpc::AccessEvent& event) { audit.OnAccess(event); },
                    .unix_seconds = [] { return absl::ToUnixSeconds(absl::Now()); },
                    .boot_ns = [] { return shard::BootNow().time_since_epoch().count(); }}),
        reloader(metrics, wakeups) {
    AddAccessUnits(options, authorizer, reloader);
    AddTlsUnit(options, tls, metrics, reloader);
  }

  AuditLog audit;
  rpc::Authorizer authorizer;
  rpc::TlsShelf tls;
  Reloader reloader;
};

// Puts gRPC's own lines into the log, at most one of each kind in ten seconds: any client can cause them.
void LogForGrpc() {
  rpc::TakeOverGrpcLog([](const rpc::GrpcLine& line) {
    static ops::LogLimit handshakes(absl::Seconds(10));
    static ops::LogLimit others(absl::Seconds(10));
    const std::string problem = rpc::HandshakeProblem(line.text);
    if (!problem.empty()) {
      if (const auto held_back = handshakes.Pass()) {
        ops::Warn("a TLS handshake with a client failed", {{"cause", problem}, {"held_back", *held_back}});
      }
    } else if (!line.is_error || line.text.find("No match found for server name") != std::string::npos) {
      ops::Debug("gRPC", {{"said", line.text}});
    } else if (const auto held_back = others.Pass()) {
      ops::Warn("gRPC", {{"said", line.text}, {"held_back", *held_back}});
    }
  });
}

void WarnOfAcceptor(const ops::Options& options, const rpc::Server& server) {
  if (server.max_connections() < static_cast<size_t>(options.max_connections)) {
    // A default that the machine does not reach is no trouble while one busy caller has enough.
    const bool asked = options.max_connections != kDefaultMaxConnections;
    const bool few = server.max_connections() < static_cast<size_t>(options.max_connections_per_peer);
    ops::Log(asked || few ? ops::LogLevel::kWarn : ops::LogLevel::kDebug,
             "fewer connections than limit max-connections: each needs two open files, and one for --death-proof",
             {{"connections", server.max_connections()}, {"max_connections", options.max_connections}});
  }
  if (!server.knows_unix_callers()) {
    ops::Warn("this gRPC does not tell which caller of a unix socket has made a call: all of them count as one");
  }
  const std::vector<std::string> open = options.OpenToStrangers();
  if (!open.empty() && !rpc::EndsEndlessHeaders()) {
    ops::Warn(
        "this gRPC does not bound what frames cost (CVE-2023-33953 and others): whoever reaches these addresses can "
        "stall the broker. Use a build with -DDISTLOCK_GRPC=hardened, as images and packages are; or let it require "
        "client certificates (--tls-client-ca); or keep strangers out by the network",
        {{"listen", absl::StrJoin(open, ",")}, {"grpc", rpc::GrpcVersion()}});
  }
}

// Where operators drain, reload and force-release.
std::string AdminShown(const ops::Options& options, const rpc::Server& server) {
  std::vector<std::string> shown = server.admin_addresses();
  for (size_t i = 0; i < options.listen.size(); ++i) {
    if (options.IsForOperators(options.listen[i])) shown.push_back(server.addresses()[i]);
  }
  return shown.empty() ? "off" : absl::StrJoin(shown, ",");
}

// The HTTP port of probes, metrics and the status page.
class HttpPort {
 public:
  HttpPort(const ops::Options& options, Metrics& metrics)
      : options_(options), pages_(metrics, options.PageShowsLocks()) {}

  // Does nothing when it is open, or off.
  absl::Status Open() {
    if (server_ != nullptr || options_.http.empty()) return absl::OkStatus();
    auto started = ops::HttpServer::Start(options_.http, pages_.Handlers(), options_.http_host);
    if (!started.ok()) return started.status();
    server_ = *std::move(started);
    return absl::OkStatus();
  }
  void Show(const HttpPages::Serving* serving) { pages_.Show(serving); }
  void Close() { server_.reset(); }
  std::string shown() const {
    if (server_ == nullptr) return "off";
    return options_.http.substr(0, options_.http.rfind(':') + 1) + std::to_string(server_->port());
  }

 private:
  const ops::Options& options_;
  HttpPages pages_;
  std::unique_ptr<ops::HttpServer> server_;
};

void TellRecorder(store::StoreOptions& options, Recorder& recorder) {
  options.on_node_status = [&recorder](const store::NodeStatus& status) { recorder.OnNodeStatus(status); };
  options.on_wait = [&recorder](core::Duration took, bool confirmed) { recorder.OnWait(took, confirmed); };
  options.cluster_events = {
      .on_redirect = [&recorder](store::ClusterEvents::Redirect redirect) { recorder.OnRedirect(redirect); },
      .on_refresh = [&recorder](store::ClusterEvents::Refresh refresh) { recorder.OnSlotMapRefresh(refresh); }};
  options.quorum_events = {
      .on_rounds = [&recorder](store::QuorumRound kind, uint64_t count) { recorder.OnQuorumRounds(kind, count); }};
}

shard::ShardSetOptions ShardOptionsOf(const ops::Options& options, const StoreSetup& setup, Recorder& recorder) {
  return {.shards = static_cast<int>(options.shards),
          .mailbox_capacity = static_cast<size_t>(options.mailbox_capacity),
          .broker = BrokerConfigOf(options, store::TraitsOf(setup.options), absl::GetCurrentTimeNanos()),
          .make_store = StoreFactory(setup),
          .load_namespaces = EscapedNamespaces(options.metrics_namespace),
          .observer = &recorder};
}

rpc::ServerOptions RpcOptionsOf(const ops::Options& options, const StoreSetup& setup, const std::string& broker_id,
                                Access& access, Recorder& recorder) {
  rpc::ServerOptions all = ServerOptionsOf(options, store::TraitsOf(setup.options), broker_id, &recorder);
  if (const auto ttl = options.LongestTtlIfReplicated(); ttl > absl::ZeroDuration()) {
    all.limits.store_is_replicated = setup.is_replicated;
    all.limits.max_ttl_if_replicated = ToCore(ttl);
  }
  all.authorizer = &access.authorizer;
  all.acceptor.observer = &recorder;
  if (!options.tls_cert.empty()) all.tls = &access.tls;
  return all;
}

rpc::BrokerFacts FactsOf(const StoreSetup& setup, Recorder& recorder, Drainer& drainer, Reloader& reloader,
                         StoreChanges& changes) {
  return {.version = DISTLOCK_VERSION,
          .store_url = setup.shown,
          .started = absl::Now(),
          .wait_replicas = setup.options.wait_replicas,
          .store_nodes = [&recorder] { return recorder.StoreNodes(); },
          .store_id = [id = setup.options.locks.schema.id] { return store::StoreIdText(*id); },
          .listen = {},
          .drain = [&drainer](std::optional<core::Duration> timeout) { return drainer.Begin(timeout); },
          .reload = [&reloader](Reloader::Answer answer) { reloader.Ask(std::move(answer)); },
          .upgrade_store = [&changes](uint32_t to, const std::string& caller,
                                      const auto& changed) { changes.Upgrade(to, caller, changed); },
          .init_quorum = [&changes](bool stopped, const std::string& caller,
                                    const auto& changed) { changes.InitQuorum(stopped, caller, changed); }};
}

// The parts of the process that need no store.
struct Process {
  explicit Process(const ops::Options& options)
      : metrics(DISTLOCK_VERSION, options.metrics_namespace,
                {.version = rpc::GrpcVersion(), .hardened = rpc::EndsEndlessHeaders()}),
        access(options, metrics, wakeups),
        http(options, metrics) {}

  const std::vector<int> inherited = acceptor::InheritedSockets();  // changes the environment: before any thread
  const Supervisor supervisor;
  Wakeups wakeups;
  const std::string broker_id = contract::RandomHex(8);
  Metrics metrics;
  Access access;
  HttpPort http;
};

int ServeCallers(const ops::Options& options, Process& process, StoreSetup& setup) {
  auto& [inherited, supervisor, wakeups, broker_id, metrics, access, http] = process;
  // Before the shards' options are set, and it outlives the server, whose calls use it.
  StoreChanges changes(setup, ToCore(options.store_timeout), ToCore(options.LongestTtl()));
  Recorder recorder(metrics, static_cast<int>(options.shards));
  TellRecorder(setup.options, recorder);
  shard::ShardSet shards(ShardOptionsOf(options, setup, recorder));
  Drainer drainer(shards, metrics, supervisor, wakeups, ToCore(options.drain_timeout));
  shards.Start();
  // Declared after the drainer and before the server: the shards call the drainer, and the server's last calls post to
  // the shards.
  const absl::Cleanup stop_shards = [&shards] { shards.Stop(); };
  rpc::ServerOptions server_options = RpcOptionsOf(options, setup, broker_id, access, recorder);
  server_options.acceptor.inherited = inherited;
  auto server = rpc::Server::Start(server_options, shards, FactsOf(setup, recorder, drainer, access.reloader, changes));
  if (!server.ok()) {
    shards.Stop();  // so that what the stores say does not hide the last line, which tells why it ends
    return Fail(server.status(), kExitConfiguration);
  }
  WarnOfAcceptor(options, **server);
  metrics.connections_limit.Set(static_cast<double>((*server)->max_connections()));
  recorder.Watch(server->get());
  const absl::Cleanup unwatch = [&recorder] { recorder.Unwatch(); };
  drainer.Attach(server->get());
  access.reloader.OnChange([&server] { (*server)->Review(); });

  const HttpPages::Serving serving{**server, shards};
  // The HTTP threads must end before the objects that their pages show.
  const absl::Cleanup close_http = [&http] { http.Close(); };
  http.Show(&serving);
  if (const absl::Status opened = http.Open(); !opened.ok()) return Fail(opened, kExitConfiguration);
  auto face = StartHttpFace(options, **server);
  if (!face.ok()) return Fail(face.status(), kExitConfiguration);
  if (*face != nullptr) drainer.OnBegin([&face] { (*face)->AnnounceEnd(); });
  if (!setup.awaits_init.empty()) {
    ops::Warn("no lock is granted: only status and distlockctl quorum-init are of use",
              {{"problem", setup.awaits_init}});
  } else if (!recorder.AwaitStore(kStoreUpGrace)) {
    ops::Warn("the store is not up yet; serving, NOT_SERVING by health");
  }
  ops::Info("distlockd ready", {{"listen", absl::StrJoin((*server)->addresses(), ",")},
                                {"admin", AdminShown(options, **server)},
                                {"http", http.shown()},
                                {"redis", setup.shown},
                                {"broker_id", broker_id}});
  supervisor.Ready();

  Watchdog watchdog(supervisor, shards, **server);
  const absl::Status ended = drainer.AwaitEnd(setup.embedded.get(), [&](Wake wake) {
    recorder.LogHeldBack();
    watchdog.Feed();
    access.reloader.OnWake(wake == Wake::kReload, shard::BootNow());
  });
  wakeups.LetGo();
  recorder.Unwatch();  // from here on health stays NOT_SERVING
  http.Close();
  (*server)->Stop(kStopGrace);
  face->reset();  // what the server has ended is told by now
  recorder.LogAllHeldBack();
  if (!ended.ok()) return Fail(ended, kExitStoreDied);
  ops::Info("distlockd stopped");
  return 0;
}

int Serve(const ops::Options& options) {
  LogForGrpc();
  if (!options.tls_cert.empty() && options.tls_min_version == ops::TlsMinVersion::k13) rpc::RequireTls13();
  RaiseFileLimit();
  Process process(options);
  // Read before anybody can call, and before the store is waited for.
  if (const absl::Status loaded = process.access.reloader.Begin(); !loaded.ok()) {
    return Fail(loaded, kExitConfiguration);
  }
  if (options.wait_for_store) {
    if (const absl::Status opened = process.http.Open(); !opened.ok()) return Fail(opened, kExitConfiguration);
    ops::Info("distlockd starts", {{"http", process.http.shown()}});
    process.supervisor.Starting("waiting for the store");
  }
  auto setup = PrepareStore(options, process.broker_id, process.wakeups);
  if (absl::IsCancelled(setup.status())) return 0;
  if (!setup.ok()) return Fail(setup.status(), StoreExitCode(setup.status()));
  return ServeCallers(options, process, *setup);
}

int Run(const std::vector<std::string>& args) {
  const auto invocation = ops::ParseOptions(args, ops::ProcessEnvironment());
  if (!invocation.ok()) {
    std::fprintf(stderr, "distlockd: %s\n", std::string(invocation.status().message()).c_str());
    return ops::ExitCode(invocation.status());
  }
  using Action = ops::Invocation::Action;
  if (invocation->action == Action::kPrintConfig && !invocation->options.redis.empty()) {
    if (const auto url = ReadStoreUrl(invocation->options); !url.ok()) {
      std::fprintf(stderr, "distlockd: %s\n", std::string(url.status().message()).c_str());
      return ops::ExitCode(url.status());
    }
  }
  const std::string text = invocation->action == Action::kHelp          ? ops::HelpText()
                           : invocation->action == Action::kHelpAll     ? ops::HelpOfAll()
                           : invocation->action == Action::kVersion     ? "distlockd " DISTLOCK_VERSION "\n"
                           : invocation->action == Action::kPrintConfig ? ops::ConfigText(invocation->options)
                                                                        : "";
  if (!text.empty()) {
    for (const std::string& warning : invocation->warnings) std::fprintf(stderr, "distlockd: %s\n", warning.c_str());
    return std::fputs(text.c_str(), stdout) < 0 ? 1 : 0;
  }
  ops::ConfigureLog(invocation->options.log_level, invocation->options.log_format);
  for (const std::string& warning : invocation->warnings) ops::Warn("option", {{"warning", warning}});
  return Serve(invocation->options);
}

}  // namespace
}  // namespace distlock

int main(int argc, char** argv) {
  // Debian builds Abseil with assertions, which would search for deadlocks each time gRPC takes a mutex.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return distlock::Run(std::vector<std::string>(argv + 1, argv + argc));
}
