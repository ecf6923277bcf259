// SPDX-License-Identifier: Apache-2.0
#include "bench/lab.h"

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "bench/delay_proxy.h"
#include "distlock/v1/admin_service.grpc.pb.h"

namespace distlock::bench {
namespace {

constexpr auto kStartTimeout = std::chrono::seconds(20);
constexpr int kSlowUs = 1'000'000;  // a round trip

v1::GetStatusResponse Status(const std::string& target) {
  auto channel = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
  auto stub = v1::AdminService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  context.set_wait_for_ready(true);
  v1::GetStatusResponse response;
  const grpc::Status status = stub->GetStatus(&context, v1::GetStatusRequest(), &response);
  if (!status.ok()) throw std::runtime_error("GetStatus at " + target + ": " + status.error_message());
  return response;
}

// The broker's first answers may come before it knows its port, and before the store is connected.
v1::GetStatusResponse Complete(v1::GetStatusResponse status) {
  for (const std::string& listen : status.listen_addresses()) {
    if (listen.ends_with(":0")) throw std::runtime_error("GetStatus.listen_addresses names no port yet: " + listen);
  }
  if (status.store_state() != v1::STORE_STATE_UP) throw std::runtime_error("store: " + status.store_problem());
  return status;
}

// Runs `attempt` until it does not throw, for as long as the child lives and the time lasts.
template <typename Attempt>
auto UntilServing(Child& child, const std::string& what, Attempt attempt) {
  const auto end = std::chrono::steady_clock::now() + kStartTimeout;
  while (true) {
    try {
      return attempt();
    } catch (const std::runtime_error& e) {
      if (!child.Alive() || std::chrono::steady_clock::now() > end) {
        throw std::runtime_error(what + " does not serve (" + e.what() + "); its last words:\n" + child.LogTail());
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

Daemon::Daemon(const Setup& setup, const std::string& store_url, const std::string& dir, const std::string& name,
               const std::string& key_prefix, const std::vector<std::string>& more_flags)
    : key_prefix_(key_prefix) {
  const std::string socket = dir + "/" + name + ".sock";
  unix_target_ = "unix://" + socket;
  std::vector<std::string> args{setup.daemon, "--listen", unix_target_,   "--listen", "127.0.0.1:0", "--http=",
                                "--redis",    store_url,  "--key-prefix", key_prefix, "--log-level", "warn"};
  args.insert(args.end(), more_flags.begin(), more_flags.end());
  const auto start = std::chrono::steady_clock::now();
  child_ = std::make_unique<Child>(args, dir + "/" + name + ".log");
  UntilServing(*child_, setup.daemon, [&] {
    // gRPC would wait for a second after a failed attempt to connect.
    if (!Listens(socket)) throw std::runtime_error("nobody listens at " + socket);
    return Status(unix_target_);
  });
  start_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const v1::GetStatusResponse status =
      UntilServing(*child_, setup.daemon, [this] { return Complete(Status(unix_target_)); });
  version_ = status.version();
  target_ = unix_target_;
  if (!setup.clients_on_tcp) return;
  for (const std::string& listen : status.listen_addresses()) {
    if (!listen.starts_with("unix:")) target_ = "ipv4:" + listen;
  }
  if (target_ == unix_target_)
    throw std::runtime_error("GetStatus.listen_addresses names no TCP address of " + setup.daemon);
}

size_t Daemon::Leases() const { return static_cast<size_t>(Status(unix_target_).leases()); }

Lab::Lab(Setup setup) : setup_(std::move(setup)) {
  // Brokers are started while gRPC is in use. gRPC's fork handlers would stop and restart it then, and it would restart
  // between two channels, too; after either, streams sometimes miss their events.
  setenv("GRPC_ENABLE_FORK_SUPPORT", "0", 1);
  grpc_init();
  std::string path = (std::filesystem::temp_directory_path() / "distlock-bench-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder like " + path);
  dir_ = path;
  try {
    StartRedis();
    StartOtherServers();
    if (setup_.cluster) JoinCluster();
    for (const char* name : {"broker1", "broker2"}) {
      if (!brokers_.empty() && setup_.durable) break;
      std::vector<std::string> flags;
      if (setup_.cluster) {
        flags = {"--failover-hold-off", "0", "--max-ttl", "1h"};
      } else if (setup_.servers > 1 && brokers_.empty()) {
        flags.emplace_back("--quorum-new");
      }
      brokers_.push_back(std::make_unique<Daemon>(setup_, StoreUrl(), dir_, name, "dl", flags));
    }
    Ail();
  } catch (...) {
    brokers_.clear();
    redis_.reset();
    std::filesystem::remove_all(dir_);
    throw;
  }
}

Lab::~Lab() {
  durable_.reset();
  quorums_.clear();
  clusters_.clear();
  brokers_.clear();
  redis_.reset();
  slow_.clear();
  for (const auto& server : others_) kill(server->pid(), SIGCONT);
  others_.clear();
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

void Lab::StartRedis() {
  for (int attempt = 0;; ++attempt) {
    port_ = FreePort();  // another process may take it before Redis does
    std::vector<std::string> args{setup_.redis_server,
                                  "--bind",
                                  "127.0.0.1",
                                  "--port",
                                  std::to_string(port_),
                                  "--unixsocket",
                                  setup_.store_delay_us > 0 ? dir_ + "/near.sock" : unix_path(),
                                  "--save",
                                  "",
                                  "--dir",
                                  dir_};
    for (const char* arg : {"--appendonly", setup_.durable ? "yes" : "no", "--appendfsync", "always"}) {
      args.emplace_back(arg);
    }
    for (std::string& arg : NodeArguments(0)) args.push_back(std::move(arg));
    redis_ = std::make_unique<Child>(args, dir_ + "/redis.log");
    try {
      if (setup_.store_delay_us > 0) StartDelayProxy();
      UntilServing(*redis_, setup_.redis_server, [this] { return Connect() != nullptr; });
      return;
    } catch (const std::runtime_error&) {
      if (attempt == 4) throw;
    }
  }
}

void Lab::StartDelayProxy() {
  UntilServing(*redis_, setup_.redis_server, [this] {
    if (!Listens(dir_ + "/near.sock")) throw std::runtime_error("nobody listens at its socket");
    return true;
  });
  port_ = FreePort();
  delay_proxy_ = std::make_unique<Child>(
      std::vector<std::string>{"/proc/self/exe", "--delay-proxy", std::to_string(port_), unix_path(),
                               dir_ + "/near.sock", std::to_string(setup_.store_delay_us), "at once"},
      dir_ + "/delay_proxy.log");
  UntilServing(*delay_proxy_, "the delay proxy", [this] { return Connect() != nullptr; });
}

void Lab::StartOtherServers() {
  while (others_.size() + 1 < setup_.servers) {
    const int port = FreePort();
    const std::string name = "redis" + std::to_string(others_.size() + 2);
    const std::string folder = dir_ + "/" + name;
    std::filesystem::create_directory(folder);
    std::vector<std::string> args{setup_.redis_server, "--bind", "127.0.0.1", "--save", "", "--dir", folder};
    for (std::string& arg : NodeArguments(others_.size() + 1)) args.push_back(std::move(arg));
    const bool is_slow = setup_.ailment == Ailment::kSlow && IsToAil(others_.size() + 1);
    if (!is_slow) args.insert(args.end(), {"--port", std::to_string(port)});
    auto server =
        is_slow ? StartSlowServer(args, folder, port) : std::make_unique<Child>(args, dir_ + "/" + name + ".log");
    UntilServing(*server, name, [port] {
      const RedisConnection context(redisConnect("127.0.0.1", port));
      if (context == nullptr || context->err != 0) throw std::runtime_error("nobody listens");
      return true;
    });
    others_.push_back(std::move(server));
    other_ports_.push_back(port);
  }
}

std::unique_ptr<Child> Lab::StartSlowServer(const std::vector<std::string>& args, const std::string& folder, int port) {
  const std::string near = folder + "/near.sock";
  std::vector<std::string> all = args;
  all.insert(all.end(), {"--port", "0", "--unixsocket", near});
  auto server = std::make_unique<Child>(all, folder + ".log");
  UntilServing(*server, folder, [&near] {
    if (!Listens(near)) throw std::runtime_error("nobody listens at its socket");
    return true;
  });
  slow_.push_back(
      std::make_unique<Child>(std::vector<std::string>{"/proc/self/exe", "--delay-proxy", std::to_string(port),
                                                       folder + "/far.sock", near, std::to_string(kSlowUs), "told"},
                              folder + "-proxy.log"));
  return server;
}

void Lab::Ail() {
  for (size_t i = 0; i < others_.size(); ++i) {
    if (!IsToAil(i + 1)) continue;
    if (setup_.ailment == Ailment::kDead) kill(others_[i]->pid(), SIGKILL);
    if (setup_.ailment == Ailment::kStopped) kill(others_[i]->pid(), SIGSTOP);
  }
  for (const auto& proxy : slow_) kill(proxy->pid(), kDelayNow);
}

std::vector<std::string> Lab::NodeArguments(size_t number) {
  if (!setup_.cluster) return {};
  bus_ports_.resize(number);  // not that of an attempt whose port was taken
  bus_ports_.push_back(FreePort());
  std::vector<std::string> args{"--cluster-enabled", "yes", "--cluster-port", std::to_string(bus_ports_.back())};
  if (!setup_.shard_channels) args.insert(args.end(), {"--rename-command", "SSUBSCRIBE", ""});
  return args;
}

void Lab::JoinCluster() {
  const std::vector<int> ports = this->ports();
  constexpr size_t kSlots = 16384;
  const auto ask = [&](size_t node, const std::string& command) {
    const RedisConnection context(redisConnect("127.0.0.1", ports[node]));
    if (context == nullptr || context->err != 0) throw std::runtime_error("a node of the Cluster does not serve");
    const RedisReply reply(static_cast<redisReply*>(redisCommand(context.get(), command.c_str())));
    if (reply == nullptr || reply->type == REDIS_REPLY_ERROR) throw std::runtime_error(command + " failed");
    return std::string(reply->str, reply->len);
  };
  for (size_t i = 0; i < ports.size(); ++i) {
    ask(i, "CLUSTER SET-CONFIG-EPOCH " + std::to_string(i + 1));
    ask(i, "CLUSTER ADDSLOTSRANGE " + std::to_string(i * kSlots / ports.size()) + " " +
               std::to_string((i + 1) * kSlots / ports.size() - 1));
    if (i > 0) ask(i, "CLUSTER MEET 127.0.0.1 " + std::to_string(ports[0]) + " " + std::to_string(bus_ports_[0]));
  }
  UntilServing(*redis_, "the Cluster", [&] {
    for (size_t i = 0; i < ports.size(); ++i) {
      const std::string info = ask(i, "CLUSTER INFO");
      for (const char* sign : {"cluster_state:ok", "cluster_slots_ok:16384"}) {
        if (info.find(sign) == std::string::npos) throw std::runtime_error(info);
      }
    }
    return true;
  });
}

std::string Lab::StoreUrl() const {
  if (setup_.servers > 1) {
    std::string url =
        (setup_.cluster ? "redis+cluster" : "redlock") + std::string("://127.0.0.1:") + std::to_string(port_);
    for (const int port : other_ports_) url += ",127.0.0.1:" + std::to_string(port);
    return url;
  }
  return setup_.store_on_tcp ? "redis://127.0.0.1:" + std::to_string(port_) : "unix://" + unix_path();
}

std::unique_ptr<Daemon> Lab::FreshBroker(const std::string& name, const std::vector<std::string>& more_flags,
                                         const std::string& key_prefix) {
  // Keys that an earlier broker of this name left when its case failed.
  if (key_prefix.empty()) RedisKeys(name + ":*", true);
  return std::make_unique<Daemon>(setup_, StoreUrl(), dir_, name, key_prefix.empty() ? name : key_prefix, more_flags);
}

void Lab::EndFreshBroker(Daemon& broker, std::chrono::seconds patience) {
  if (!broker.Stop(patience)) {
    throw std::runtime_error("the broker did not end within " + std::to_string(patience.count()) + " s of SIGTERM");
  }
  if (const size_t held = RedisKeys(broker.key_prefix() + ":*:h"); held != 0) {
    throw std::runtime_error("the broker left " + std::to_string(held) + " locks held in the store");
  }
  RedisKeys(broker.key_prefix() + ":*", true);
}

Lab& Lab::Durable() {
  if (durable_ == nullptr) {
    Setup setup = setup_;
    setup.durable = true;
    durable_ = std::make_unique<Lab>(std::move(setup));
  }
  return *durable_;
}

Lab& Lab::Quorum(size_t servers, Ailment ailment) {
  auto& lab = quorums_[{servers, ailment}];
  if (lab == nullptr) {
    Setup setup = setup_;
    setup.servers = servers;
    setup.ailment = ailment;
    setup.store_on_tcp = true;
    lab = std::make_unique<Lab>(std::move(setup));
  }
  return *lab;
}

Lab& Lab::Cluster(bool shard_channels) {
  auto& lab = clusters_[shard_channels];
  if (lab == nullptr) {
    Setup setup = setup_;
    setup.servers = 3;
    setup.cluster = true;
    setup.shard_channels = shard_channels;
    setup.store_on_tcp = true;
    lab = std::make_unique<Lab>(std::move(setup));
  }
  return *lab;
}

std::vector<pid_t> Lab::other_pids() const {
  std::vector<pid_t> pids;
  for (const auto& other : others_) pids.push_back(other->pid());
  return pids;
}

RedisConnection Lab::Connect(Transport over) const {
  RedisConnection context(OnTcp(over) ? redisConnect("127.0.0.1", port_) : redisConnectUnix(unix_path().c_str()));
  if (context == nullptr || context->err != 0) {
    throw std::runtime_error(std::string("redis: ") + (context == nullptr ? "no memory" : context->errstr));
  }
  return context;
}

}  // namespace distlock::bench
