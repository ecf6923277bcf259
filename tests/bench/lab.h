// SPDX-License-Identifier: Apache-2.0
//
// Lab: the servers under measurement, in a private folder: one volatile Redis on loopback TCP and a unix socket, behind
// a delay proxy if asked for, two brokers on it, each on loopback TCP and a unix socket. Durable() makes a second Lab
// on demand, with one broker on a durable Redis. All servers end with the Lab. Main thread only, except for const
// reads.
#pragma once

#include <hiredis/hiredis.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/process.h"

namespace distlock::bench {

// The size of the measurements; --quick and --smoke reduce it.
struct Size {
  int rounds = 5;
  double seconds = 1.0;       // of each closed loop
  double warm_seconds = 0.2;  // before counting begins
  int idle_handoffs = 60;
  int queue_runs = 5;
  int leases = 100'000;
  int sessions = 2000;  // idle ones
  double renewal_ttl_seconds = 30;
  double renewal_watch_seconds = 30;
  double watch_seconds = 10;
  bool smoke = false;  // fewer and smaller cases
};

// What is wrong with a minority of the servers of a quorum, the largest possible, once the brokers have met all.
enum class Ailment { kNone, kDead, kStopped, kSlow };

struct Setup {
  std::string daemon;  // path of distlockd
  std::string redis_server = "redis-server";
  bool clients_on_tcp = true;        // clients to the broker, and direct clients to Redis
  bool store_on_tcp = false;         // the broker to Redis
  bool peers = false;                // measure other lock systems, too
  bool durable = false;              // Redis writes and syncs before it answers
  bool growth = false;               // also the rows that take minutes
  int store_delay_us = 0;            // round trip to Redis that a proxy adds for everybody; 0: there is no proxy
  size_t servers = 1;                // independent ones, of a quorum if there are several
  Ailment ailment = Ailment::kNone;  // of the last of them
  bool cluster = false;              // the servers are the primaries of a Cluster
  bool shard_channels = true;        // they have them
  Size size;
};

// The transport of one case's clients: as in Setup, or unix sockets in any case.
enum class Transport { kAsSetUp, kUnix };

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using RedisConnection = std::unique_ptr<redisContext, FreeContext>;

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RedisReply = std::unique_ptr<redisReply, FreeReply>;

// One distlockd.
class Daemon {
 public:
  // Returns when it serves and its store is connected; otherwise throws std::runtime_error with the end of its log.
  Daemon(const Setup& setup, const std::string& store_url, const std::string& dir, const std::string& name,
         const std::string& key_prefix, const std::vector<std::string>& more_flags = {});

  pid_t pid() const { return child_->pid(); }
  // A gRPC target.
  const std::string& target(Transport over = Transport::kAsSetUp) const {
    return over == Transport::kUnix ? unix_target_ : target_;
  }
  const std::string& key_prefix() const { return key_prefix_; }
  const std::string& version() const { return version_; }
  double start_seconds() const { return start_seconds_; }  // from its start to its first answer
  size_t Leases() const;                                   // by the broker's own count
  void AskToStop() { child_->AskToStop(); }
  // False: it had to be killed.
  bool Stop(std::chrono::seconds patience = std::chrono::seconds(60)) { return child_->Stop(patience); }

 private:
  std::unique_ptr<Child> child_;
  const std::string key_prefix_;
  std::string unix_target_;
  std::string target_;
  std::string version_;
  double start_seconds_ = 0;
};

class Lab {
 public:
  explicit Lab(Setup setup);
  ~Lab();

  const Setup& setup() const { return setup_; }
  const Size& size() const { return setup_.size; }
  const Daemon& broker(size_t i) const { return *brokers_.at(i); }
  size_t broker_count() const { return brokers_.size(); }
  pid_t redis_pid() const { return redis_->pid(); }
  std::vector<pid_t> other_pids() const;  // of the store's further servers

  // A new broker, with no leases yet, whose keys begin with `name`, or with `key_prefix` if it shares them.
  std::unique_ptr<Daemon> FreshBroker(const std::string& name, const std::vector<std::string>& more_flags = {},
                                      const std::string& key_prefix = "");

  // Stops the broker and removes the tokens of its locks from the store. Throws std::runtime_error when it has to be
  // killed or leaves a lock held.
  void EndFreshBroker(Daemon& broker, std::chrono::seconds patience = std::chrono::seconds(60));

  // A Lab with one broker on a Redis that syncs every write. The first call starts it.
  Lab& Durable();

  // A Lab with two brokers that reach so many servers over TCP: one, or a quorum of independent ones. The first call
  // starts it.
  Lab& Quorum(size_t servers, Ailment ailment = Ailment::kNone);
  // The same, on a Cluster of three primaries, with channels of shards or without.
  Lab& Cluster(bool shard_channels = true);

  // A connection like those of direct clients; throws std::runtime_error.
  RedisConnection Connect(Transport over = Transport::kAsSetUp) const;
  bool OnTcp(Transport over) const { return setup_.clients_on_tcp && over != Transport::kUnix; }
  // Where clients of Redis connect: Redis itself, or the delay proxy.
  std::string unix_path() const { return dir_ + "/redis.sock"; }
  int port() const { return port_; }
  std::vector<int> ports() const {  // of all servers, the first before the others
    std::vector<int> ports{port_};
    ports.insert(ports.end(), other_ports_.begin(), other_ports_.end());
    return ports;
  }
  const std::string& folder() const { return dir_; }  // for files that end with the Lab

  // A line of INFO, such as "redis_version"; "" when there is none.
  std::string RedisInfo(const std::string& section, std::string_view line) const;
  // The number of calls of all commands so far, or of the named one. Counts commands inside scripts, but not this
  // function's own INFO.
  double RedisCalls(std::string_view command = "") const;

  // The number of keys that match a glob pattern of SCAN. `remove`: deletes them.
  size_t RedisKeys(const std::string& pattern, bool remove = false) const;

  double OursCpuSeconds() const;  // of this process, all servers, and the children that have ended

 private:
  void StartRedis();
  void StartDelayProxy();
  void StartOtherServers();
  std::unique_ptr<Child> StartSlowServer(const std::vector<std::string>& args, const std::string& folder, int port);
  // Whether the server of that number is one of the minority.
  bool IsToAil(size_t number) const { return setup_.ailment != Ailment::kNone && number > setup_.servers / 2; }
  void Ail();
  // What the server of that number needs to be a node of a Cluster; nothing where there is none.
  std::vector<std::string> NodeArguments(size_t number);
  void JoinCluster();
  double ServersCpuSeconds() const;
  std::string StoreUrl() const;

  const Setup setup_;
  std::string dir_;
  int port_ = 0;
  std::unique_ptr<Child> redis_;
  std::unique_ptr<Child> delay_proxy_;
  std::vector<std::unique_ptr<Child>> others_;  // of a quorum, behind the first
  std::vector<std::unique_ptr<Child>> slow_;    // proxies before some of them
  std::vector<int> other_ports_;
  std::vector<int> bus_ports_;  // of a Cluster, in the order of the servers
  std::vector<std::unique_ptr<Daemon>> brokers_;
  std::unique_ptr<Lab> durable_;
  std::map<std::pair<size_t, Ailment>, std::unique_ptr<Lab>> quorums_;
  std::map<bool, std::unique_ptr<Lab>> clusters_;
};

}  // namespace distlock::bench
