// SPDX-License-Identifier: Apache-2.0
//
// News for the supervisor that started the process, such as systemd, by the protocol of sd_notify(3): a datagram to the
// socket that NOTIFY_SOCKET names. Without that variable nothing is told. Failures are ignored: the supervisor has its
// own time-outs.
//
// Thread: any. The environment is read at construction, before there are threads, and does not reach child processes.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "rpc/server.h"
#include "shard/shard_set.h"

namespace distlock {

class Supervisor {
 public:
  Supervisor();
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  void Starting(std::string_view status) const { Tell("STATUS=", status); }
  void Ready() const { Tell("READY=1\nSTATUS=", "serving"); }
  void Stopping() const { Tell("STOPPING=1\nSTATUS=", "draining"); }
  void Alive() const { Tell("WATCHDOG=1", ""); }
  // Whether the supervisor ends a process that is silent for too long. Main tells it about twice a second.
  bool watches() const { return watches_; }

 private:
  void Tell(std::string_view what, std::string_view value) const;

  std::string address_;  // as in sockaddr_un, empty without a supervisor
  int socket_ = -1;
  bool watches_ = false;
};

// Tells a supervisor that watches that the broker is alive, as long as main's thread comes by, every shard and every
// thread of gRPC's calls has had a turn since, and each address lets connections in. The store does not matter: a
// restart would end locks that survive its outage.
//
// Thread: main's. The arguments outlive it.
class Watchdog {
 public:
  Watchdog(const Supervisor& supervisor, shard::ShardSet& shards, rpc::Server& server)
      : supervisor_(supervisor), shards_(shards), server_(server) {}

  // Called at least twice a second.
  void Feed();

 private:
  const Supervisor& supervisor_;
  shard::ShardSet& shards_;
  rpc::Server& server_;
  // How many of both have not answered yet. Shared, because who was stuck may answer after this object has ended.
  const std::shared_ptr<std::atomic<int>> awaited_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace distlock
