// SPDX-License-Identifier: Apache-2.0
//
// A Redis server in memory, as far as lua/README.md uses one: it runs the production scripts with an embedded Lua 5.1
// on a keyspace with expiry, pub/sub, a script cache, maxmemory, roles and replication by effects. Its honesty is
// proven in sim_redis_honesty_test, where it answers random calls beside real servers.
//
// Time is a value that the caller sets, in microseconds since 1970 on this server's own clock; within a call it stands.
// Everything is deterministic: same calls, same replies, same order of callbacks, in every process.
//
// Thread: the one that made it (compiled scripts are shared by all models of a thread). Making one costs about a
// microsecond. Callbacks run in the midst of the call that causes them; they may read from the model, no more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/redis/resp.h"

namespace distlock::sim {

using Argv = std::vector<std::string_view>;

// The first command of `bytes` (RESP arrays of bulk strings, as store::Codec and store::CommandBuilder write them),
// which loses it from its front. Empty: no whole, well-formed command is there, and `bytes` is as it was. The words
// point into `bytes`.
Argv ParseCommand(std::string_view& bytes);

enum class KeyType : uint8_t { kNone, kString, kList, kSet, kZset, kHash };

enum class ChangeKind : uint8_t {
  kWritten,  // made, or its value or TTL changed
  kDeleted,
  kExpired,  // deleted because its time had come: by access, by ExpireDue, or on a replica by its primary's word
  kFlushed,  // all keys at once; the key is ""
};

// What one call changed, as commands whose effect does not depend on the time they are run at: expiries are absolute,
// keys found expired are UNLINKed by name (deleted ones are DELed), messages are published. To be applied whole, in
// order.
struct Effects {
  std::vector<std::vector<std::string>> commands;
};

struct KeyFacts {
  std::string_view key;
  KeyType type = KeyType::kNone;
  std::optional<int64_t> expires_ms;  // since 1970; unset: never
};

class Server;

class RedisModel {
 public:
  // An empty primary without scripts. `number` tells servers apart: it goes into the run id.
  explicit RedisModel(int64_t now_us = 0, uint64_t number = 0);
  ~RedisModel();
  RedisModel(RedisModel&&) noexcept;
  RedisModel& operator=(RedisModel&&) noexcept;

  // ---- Calls ----

  // Runs one command for connection `client`, any number >= 0 (it need not be opened). Never null: what goes wrong is
  // an error reply with the text of Redis 7. A client that has subscribed may, as in RESP2, only (un)subscribe and
  // PING. SUBSCRIBE and UNSUBSCRIBE take one channel a call, since a call has one reply.
  store::ReplyPtr Execute(int client, const Argv& argv);

  // The connection is gone, and with it its subscriptions.
  void Disconnect(int client);

  // Each PUBLISH (also one inside a script, before the script's reply) calls this for each subscriber, in the order
  // they subscribed.
  void OnMessage(std::function<void(int client, std::string_view channel, std::string_view payload)> on_message);

  // ---- Time ----

  int64_t now_us() const;
  // To any time, also back. Deletes nothing: a key that is past its time is absent to all who look, and is deleted when
  // a command touches it. As in Redis, a key lives through the millisecond of its expiry: it is expired when now_ms >
  // expires_ms.
  void SetClock(int64_t now_us);
  // What Redis does in the background: deletes all that is expired, earliest first, equal ones by name. Nothing on a
  // replica.
  void ExpireDue();
  // SetClock, then ExpireDue.
  void Advance(int64_t now_us);
  // When ExpireDue has something to do next: the first microsecond at which a key counts as expired. May be past.
  std::optional<int64_t> NextExpiry() const;

  // ---- Trouble ----

  // While not "": the reply to every command, e.g. "BUSY Redis is busy running a script."; no leading '-'. "LOADING ..."
  // spares the commands that Redis answers while it loads, among them INFO, which says so.
  void RefuseAll(std::string error);
  // While not "": what a command that writes gets, also within scripts, where it ends the script like any error, e.g.
  // "NOREPLICAS Not enough good replicas to write." or "MISCONF ...".
  void RefuseWrites(std::string error);
  // 0: no limit. A limit of 1 is always exceeded. As in Redis with noeviction: when used_memory() > limit before a
  // call, it refuses what may grow memory (SET, ZADD, HSET, LPUSH, SADD); within a script only until its first write
  // command has run.
  void SetMaxMemory(uint64_t bytes);
  // A simple estimate: a fixed part, and the bytes of keys and values with a fixed overhead each.
  uint64_t used_memory() const;
  // The server's process is started again with its data: connections, subscriptions and scripts are gone, and its run
  // id is another.
  void Restart();

  // ---- Replication ----

  // Called after each call (or ExpireDue) on a primary that changed something. Unset: nothing is recorded. The caller
  // keeps them for as long as the replica lags and hands them to Apply of the other model, in order.
  void OnEffects(std::function<void(const Effects& effects)> on_effects);
  // On a replica only. Its own clock plays no part in it.
  void Apply(const Effects& effects);
  // All data of another model, in place of the own: a full synchronisation, or a snapshot kept and brought back.
  // Scripts, subscriptions, clock, role and callbacks stay. Reported as kFlushed, then kWritten for each key.
  void CopyDataFrom(const RedisModel& other);
  // A replica answers writes with READONLY, reads expired keys as absent and waits for its primary's DEL.
  // `host` and `port`: of the primary, as INFO shows it.
  void BecomeReplica(std::string host = "127.0.0.1", int port = 1);
  // What it has by now is the truth from now on. Scripts were never replicated.
  void Promote();
  bool is_replica() const;

  // ---- Observation ----

  // What a client would see now; nothing is touched by looking. Views end with the next call that is not const.

  void OnChange(std::function<void(std::string_view key, ChangeKind kind)> on_change);
  KeyType Type(std::string_view key) const;
  std::optional<std::string_view> String(std::string_view key) const;  // nullopt: absent, or of another type
  std::vector<std::pair<std::string_view, double>> Zset(std::string_view key) const;            // in order of rank
  std::vector<std::pair<std::string_view, std::string_view>> Hash(std::string_view key) const;  // by field
  int64_t Pttl(std::string_view key) const;  // ms; -1 never expires, -2 absent
  std::vector<KeyFacts> Keys() const;        // by key
  bool HasScript(std::string_view sha1) const;
  // Subscribers of a channel, in the order they subscribed.
  std::vector<int> Subscribers(std::string_view channel) const;

 private:
  std::unique_ptr<Server> server_;
};

}  // namespace distlock::sim
