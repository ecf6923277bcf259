// SPDX-License-Identifier: Apache-2.0
//
// A Cluster of real servers on free ports of 127.0.0.1: three primaries that have all slots, without replicas. One
// thread.
#pragma once

#include <sys/types.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness.h"
#include "store/store_url.h"

namespace distlock::store {

class ClusterServers {
 public:
  static constexpr int kNodes = 3;

  // Returns once all slots are served; a server takes two seconds for that.
  explicit ClusterServers(const std::string& binary);
  ~ClusterServers();
  ClusterServers(const ClusterServers&) = delete;
  ClusterServers& operator=(const ClusterServers&) = delete;

  StoreUrl Url() const;
  int port(int node) const { return nodes_[node].port; }
  const std::string& id(int node) const { return nodes_[node].id; }
  Admin& admin(int node) { return *nodes_[node].admin; }
  // Has no data, and no scripts.
  void Clean();

 private:
  struct Node {
    std::string id;
    int port = 0;
    int bus_port = 0;
    pid_t pid = -1;
    std::unique_ptr<Admin> admin;
  };

  std::string NodesFile(int of) const;
  void Spawn(const std::string& binary, int node);

  const bool has_shard_ids_;
  TempDir folder_;
  std::vector<Node> nodes_;
};

}  // namespace distlock::store
