// SPDX-License-Identifier: Apache-2.0
//
// The parts of a RedisModel, for its commands. Thread: the model's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis/keyspace.h"
#include "redis/reply_sink.h"
#include "redis/scripting.h"

namespace distlock::sim {

class Server {
 public:
  Keyspace keys;
  std::function<void(int, std::string_view, std::string_view)> on_message;
  std::vector<std::pair<std::string, int>> subscriptions;  // (channel, client), in the order they were made
  std::vector<const Script*> scripts;                      // loaded
  std::string refuse_all;
  std::string refuse_writes;
  uint64_t max_memory = 0;
  uint64_t number = 0;       // tells servers apart
  uint32_t restarts = 0;     // tells the lives of a server apart
  uint32_t promotions = 0;   // tells the histories of its data apart
  bool was_replica = false;  // in this life
  bool was_fed = false;      // in this life another server's data came in
  bool was_emptied = false;  // in this life, by FLUSHALL
  std::string primary_host;  // of a replica, as INFO shows it
  int primary_port = 0;
  std::vector<std::string> replicas;  // as INFO shows them
  int min_replicas = 0;
  int max_lag_seconds = 10;
  bool appends = false;                       // appendonly
  std::string appends_to_disk = "everysec";   // appendfsync
  bool rewrites_unsynced = false;             // no-appendfsync-on-rewrite
  std::optional<int64_t> started_us;          // by its clock; unset: its clock was not set yet
  std::function<bool(Words)> may_script_run;  // of a Cluster's node; unset: scripts may run all

  // State of the running script.
  bool script_wrote = false;
  bool full_at_start = false;

  uint64_t used_memory() const;
  // A replica ignores the limit: it must be able to hold its primary's data.
  bool full() const { return max_memory > 0 && !keys.replica && used_memory() > max_memory; }

  const Script* FindScript(std::string_view sha1) const;
  void AddScript(const Script* script);

  // Returns the number of receivers.
  int64_t Publish(std::string_view channel, std::string_view payload);
  int64_t CountSubscriptions(int client) const;
  bool loading() const { return refuse_all.starts_with("LOADING"); }
  std::string RunId() const;
  std::string ReplicationId() const;
};

// One running command.
struct Call {
  Server& server;
  int client;
  Words argv;  // first the command's name, in upper or lower case; at least as many as its arity says
  ReplySink& reply;

  Keyspace& keys() const { return server.keys; }
  std::string_view arg(size_t i) const { return argv[i]; }
};

struct Command {
  enum Flag : uint8_t {
    kWrites = 1,  // refused on a replica
    kGrows = 2,   // refused at maxmemory
    kNoScript = 4,
    kSubscribed = 8,  // also for a client with subscriptions
    kLoading = 16,    // also while the server loads its data
  };
  const char* name;  // lowercase
  int arity;         // words, with the name; negative: at least so many
  uint8_t flags;
  void (*run)(Call& call);
};

// nullptr: no such command.
const Command* FindCommand(std::string_view name);

// A client's command, from its checks to the end of its effects.
void RunForClient(Server& server, int client, Words argv, ReplySink& reply);
// A running script's command.
void RunForScript(Server& server, int client, Words argv, ReplySink& reply);
// A command of a primary's effects.
void RunEffect(Server& server, Words argv);

inline constexpr std::string_view kWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value";
inline constexpr std::string_view kNoInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kSyntax = "ERR syntax error";

// All of `text`, decimal, as Redis reads integers: no plus sign, no leading zeros, no spaces.
bool ReadInteger(std::string_view text, int64_t& value);
// When it is not an integer, answers the call with an error.
bool ReadInteger(Call& call, std::string_view text, int64_t& value);
// Compares without regard to case; `lower` is lowercase.
bool SameWord(std::string_view word, std::string_view lower);

// The value at `key`, nullptr when absent. False: it has another type, and the call is answered with that error.
template <typename T>
bool FindValue(Call& call, std::string_view key, T*& value) {
  Entry* entry = call.keys().Find(key);
  value = entry == nullptr ? nullptr : std::get_if<T>(&entry->value);
  if (entry == nullptr || value != nullptr) return true;
  call.reply.Error(kWrongType);
  return false;
}

// The same; makes an empty value when it is absent.
template <typename T>
bool FindOrMakeValue(Call& call, std::string_view key, T*& value) {
  value = std::get_if<T>(&call.keys().FindOrMake(key, T()).value);
  if (value != nullptr) return true;
  call.reply.Error(kWrongType);
  return false;
}

namespace commands {

// key_commands.cc
void Get(Call& call);
void MGet(Call& call);
void Set(Call& call);
void Del(Call& call);
void Unlink(Call& call);
void Exists(Call& call);
void Type(Call& call);
void PExpire(Call& call);
void PExpireAt(Call& call);
void PTtl(Call& call);
void PExpireTime(Call& call);
void Keys(Call& call);
void FlushAll(Call& call);

// scan_command.cc
void Scan(Call& call);

// collection_commands.cc
void ZAdd(Call& call);
void ZRem(Call& call);
void ZRange(Call& call);
void ZCard(Call& call);
void ZRank(Call& call);
void ZCount(Call& call);
void HExists(Call& call);
void HSet(Call& call);
void HGet(Call& call);
void HMGet(Call& call);
void HDel(Call& call);
void HLen(Call& call);
void HGetAll(Call& call);
void LPush(Call& call);
void LRange(Call& call);
void SAdd(Call& call);
void SMembers(Call& call);

// server_commands.cc
void Ping(Call& call);
void Time(Call& call);
void Role(Call& call);
void Publish(Call& call);
void SPublish(Call& call);
void Subscribe(Call& call);
void SSubscribe(Call& call);
void Unsubscribe(Call& call);
void ScriptCommand(Call& call);
void Eval(Call& call);
void EvalSha(Call& call);

// info_commands.cc
void Info(Call& call);
void Config(Call& call);
void Client(Call& call);

}  // namespace commands

}  // namespace distlock::sim
