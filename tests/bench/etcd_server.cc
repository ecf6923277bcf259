// SPDX-License-Identifier: Apache-2.0
#include "bench/etcd_server.h"

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "etcd_lease.grpc.pb.h"

namespace distlock::bench {
namespace {

constexpr int kAttempts = 3;  // another process may take the free port before etcd does
constexpr auto kStartTimeout = std::chrono::seconds(20);
// etcd's own client renews its lease every 20 s, which no figure would show. A lease of one hour needs no renewal.
constexpr int64_t kLeaseSeconds = 3600;

std::string Loopback(int port) { return "http://127.0.0.1:" + std::to_string(port); }

}  // namespace

EtcdServer::EtcdServer(const Lab& lab) : data_(lab.folder() + "/etcd") {
  for (int attempt = 1;; ++attempt) {
    try {
      Start();
      return;
    } catch (const std::runtime_error&) {
      if (attempt == kAttempts) throw;
    }
  }
}

EtcdServer::~EtcdServer() {
  child_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(data_, ignored);
}

void EtcdServer::Start() {
  const std::string log = data_ + ".log";
  for (const std::string& earlier : {data_, log}) std::filesystem::remove_all(earlier);
  const int port = FreePort();
  const std::string peer = Loopback(FreePort());
  const std::string clients = Loopback(port);
  child_ = std::make_unique<Child>(
      std::vector<std::string>{"etcd", "--name", "bench", "--data-dir", data_, "--listen-client-urls", clients,
                               "--advertise-client-urls", clients, "--listen-peer-urls", peer,
                               "--initial-advertise-peer-urls", peer, "--initial-cluster", "bench=" + peer, "--logger",
                               "zap", "--log-level", "warn"},
      log);
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);  // etcd may not listen yet
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
  channel_ = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), args);
  locks_ = v3lockpb::Lock::NewStub(channel_);
  const auto end = std::chrono::steady_clock::now() + kStartTimeout;
  while (true) {
    try {
      NewLease();  // only a member that has a leader grants a lease
      return;
    } catch (const std::runtime_error& e) {
      if (!child_->Alive() || std::chrono::steady_clock::now() > end) {
        throw std::runtime_error(std::string("etcd does not serve (") + e.what() + "): " + child_->LogTail());
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

int64_t EtcdServer::NewLease() {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(kLeaseSeconds);
  etcdserverpb::LeaseGrantResponse response;
  const grpc::Status status = etcdserverpb::Lease::NewStub(channel_)->LeaseGrant(&context, request, &response);
  if (!status.ok()) throw std::runtime_error("LeaseGrant: " + status.error_message());
  return response.id();
}

}  // namespace distlock::bench
