// SPDX-License-Identifier: Apache-2.0
//
// Lab: the servers under measurement, in a private folder: one volatile Redis on loopback TCP and a unix socket, two
// brokers on it, each on loopback TCP and a unix socket. When somebody asks for it, a second Lab is made, with one
// broker on a durable Redis. All end with the Lab. Main thread only, except for const reads.
#pragma once

#include <hiredis/hiredis.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/process.h"

namespace distlock::bench {

// How much is measured; --quick and --smoke shrink it.
struct Size {
  int rounds = 5;
  double seconds = 1.0;       // of each closed loop
  double warm_seconds = 0.2;  // before it counts
  int idle_handoffs = 60;
  int queue_runs = 5;
  int leases = 100'000;
  int sessions = 2000;  // idle ones
  double renewal_ttl_seconds = 30;
  double renewal_watch_seconds = 30;
  double watch_seconds = 10;
  bool smoke = false;  // fewer and smaller cases
};

struct Setup {
  std::string daemon;  // path of distlockd
  std::string redis_server = "redis-server";
  bool clients_on_tcp = true;  // clients to the broker, and direct clients to Redis
  bool store_on_tcp = false;   // the broker to Redis
  bool peers = false;          // measure other lock systems, too
  bool durable = false;        // Redis writes and syncs before it answers
  bool growth = false;         // also the rows that take minutes
  Size size;
};

// What one case's clients use: what Setup says, or unix sockets whatever it says.
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
  // Returns when it serves and its store is connected; throws std::runtime_error, with its last words, when it does
  // not.
  Daemon(const Setup& setup, const std::string& store_url, const std::string& dir, const std::string& name,
         const std::string& key_prefix, const std::vector<std::string>& more_flags = {});

  pid_t pid() const { return child_->pid(); }
  // A gRPC target.
  const std::string& target(Transport over = Transport::kAsSetUp) const {
    return over == Transport::kUnix ? unix_target_ : target_;
  }
  const std::string& key_prefix() const { return key_prefix_; }
  const std::string& version() const { return version_; }
  double start_seconds() const { return start_seconds_; }  // from its execution to its first answer
  uint64_t Leases() const;                                 // as it counts them itself
  void AskToStop() { child_->AskToStop(); }
  // false: it had to be killed.
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

  // One more broker, in its first state, whose keys begin with its name.
  std::unique_ptr<Daemon> FreshBroker(const std::string& name, const std::vector<std::string>& more_flags = {});

  // Stops it and takes the tokens of its locks out of the store. Throws std::runtime_error when it has to be killed or
  // leaves a lock held.
  void EndFreshBroker(Daemon& broker, std::chrono::seconds patience = std::chrono::seconds(60));

  // One broker on a Redis that syncs every write. Started by the first call.
  Lab& Durable();

  // As direct clients do; throws std::runtime_error.
  RedisConnection Connect(Transport over = Transport::kAsSetUp) const;
  bool OnTcp(Transport over) const { return setup_.clients_on_tcp && over != Transport::kUnix; }
  std::string unix_path() const { return dir_ + "/redis.sock"; }
  int port() const { return port_; }
  const std::string& folder() const { return dir_; }  // for what shall end with the Lab

  // A line of INFO, such as "redis_version"; "" when there is none.
  std::string RedisInfo(const std::string& section, std::string_view line) const;
  // Calls of all commands so far, those inside scripts too, those of our own INFO not; of one command when named.
  double RedisCalls(std::string_view command = "") const;

  // How many keys match a glob pattern of SCAN; `remove` them.
  size_t RedisKeys(const std::string& pattern, bool remove = false) const;

  double OursCpuSeconds() const;  // this process, all servers, and the children that have ended

 private:
  void StartRedis();
  double ServersCpuSeconds() const;
  std::string StoreUrl() const;

  const Setup setup_;
  std::string dir_;
  int port_ = 0;
  std::unique_ptr<Child> redis_;
  std::vector<std::unique_ptr<Daemon>> brokers_;
  std::unique_ptr<Lab> durable_;
};

}  // namespace distlock::bench
