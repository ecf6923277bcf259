// SPDX-License-Identifier: Apache-2.0
#include "cluster_servers.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "store/text.h"

namespace distlock::store {
namespace {

constexpr std::chrono::seconds kPatience{30};
constexpr int kSlotCount = 16384;

// All different.
std::vector<int> FreePorts(int count) {
  std::vector<int> sockets, ports;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    sockets.push_back(fd);
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int fd : sockets) close(fd);
  return ports;
}

bool Listens(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool listens = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return listens;
}

// False after kPatience.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace

ClusterServers::ClusterServers(const std::string& binary) : has_shard_ids_(Contains(binary, "valkey")), nodes_(kNodes) {
  const std::vector<int> ports = FreePorts(2 * kNodes);
  for (int i = 0; i < kNodes; ++i) {
    nodes_[i].id = std::string(40, static_cast<char>('a' + i));
    nodes_[i].port = ports[i];
    nodes_[i].bus_port = ports[kNodes + i];
  }
  for (int i = 0; i < kNodes; ++i) Spawn(binary, i);
  for (int i = 0; i < kNodes; ++i) {
    StoreUrl url;
    url.address.path = Cat(folder_.path(), "/", i, ".sock");
    EXPECT_TRUE(Eventually([&] { return Listens(url.address.path); })) << binary << " does not start";
    nodes_[i].admin = std::make_unique<Admin>(url);
  }
  EXPECT_TRUE(Eventually([&] {
    for (Node& node : nodes_) {
      if (!Contains(node.admin->Str({"CLUSTER", "INFO"}), "cluster_state:ok")) return false;
    }
    return true;
  })) << "the slots are not served";
}

ClusterServers::~ClusterServers() {
  for (Node& node : nodes_) {
    if (node.pid > 0) kill(node.pid, SIGKILL);
  }
  for (Node& node : nodes_) {
    if (node.pid > 0) waitpid(node.pid, nullptr, 0);
  }
}

// The disk of a node that has been in the Cluster before: so nobody needs to introduce them to each other.
std::string ClusterServers::NodesFile(int of) const {
  std::string text;
  for (int i = 0; i < kNodes; ++i) {
    const Node& node = nodes_[i];
    // Redis 7.0 knows no shards' ids in this file, and Valkey 8.0 ends at the first SPUBLISH without them.
    Append(text, node.id, " 127.0.0.1:", node.port, "@", node.bus_port,
           has_shard_ids_ ? Cat(",,tls-port=0,shard-id=", std::string(40, static_cast<char>('1' + i))) : "",
           i == of ? " myself,master" : " master", " - 0 0 ", i + 1, " connected ", kSlotCount * i / kNodes, "-",
           kSlotCount * (i + 1) / kNodes - 1, "\n");
  }
  return Cat(text, "vars currentEpoch ", kNodes, " lastVoteEpoch 0\n");
}

void ClusterServers::Spawn(const std::string& binary, int node) {
  const std::string folder = Cat(folder_.path(), "/", node);
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/nodes.conf") << NodesFile(node);
  const std::vector<std::string> argv = {binary,
                                         "--port",
                                         Cat(nodes_[node].port),
                                         "--cluster-port",
                                         Cat(nodes_[node].bus_port),
                                         "--bind",
                                         "127.0.0.1",
                                         "--unixsocket",
                                         Cat(folder_.path(), "/", node, ".sock"),
                                         "--dir",
                                         folder,
                                         "--logfile",
                                         folder + "/log",
                                         "--save",
                                         "",
                                         "--cluster-enabled",
                                         "yes",
                                         "--loglevel",
                                         "warning",
                                         "--maxmemory-policy",
                                         "noeviction",
                                         "--cluster-node-timeout",
                                         "5000"};
  std::vector<char*> raw;
  for (const std::string& one : argv) raw.push_back(const_cast<char*>(one.c_str()));
  raw.push_back(nullptr);
  nodes_[node].pid = fork();
  if (nodes_[node].pid != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execvp(raw[0], raw.data());
  _exit(127);
}

StoreUrl ClusterServers::Url() const {
  StoreUrl url;
  url.topology = StoreUrl::Topology::kCluster;
  for (const Node& node : nodes_) url.seeds.push_back({.host = "127.0.0.1", .port = node.port, .path = {}});
  return url;
}

void ClusterServers::Clean() {
  for (Node& node : nodes_) {
    EXPECT_EQ(node.admin->Str({"FLUSHALL"}), "OK");
    node.admin->Do({"SCRIPT", "FLUSH"});
  }
}

}  // namespace distlock::store
