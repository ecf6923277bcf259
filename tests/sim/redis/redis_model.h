// SPDX-License-Identifier: Apache-2.0
//
// A Redis server in memory, with the features that lua/README.md needs: it runs the production scripts with an embedded
// Lua 5.1 on a keyspace with expiry, pub/sub, a script cache, maxmemory, roles and replication by effects.
// sim_redis_model_check_test compares it with real servers on random calls.
//
// The caller sets the time, in microseconds since 1970 on this server's own clock; it does not move within a call.
// Everything is deterministic: same calls, same replies, same order of callbacks, in every process.
//
// Thread: the one that made it (compiled scripts are shared by all models of a thread). Making one costs about a
// microsecond. Callbacks run within the call that causes them; they may only read from the model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/redis/resp.h"

namespace distlock::sim {

using Argv = std::vector<std::string_view>;

// Removes the first command from the front of `bytes` and returns it (RESP arrays of bulk strings, as store::Codec and
// store::CommandBuilder write them). Empty: `bytes` does not begin with a complete, well-formed command, and is
// unchanged. The words point into `bytes`.
Argv ParseCommand(std::string_view& bytes);

enum class KeyType : uint8_t { kNone, kString, kList, kSet, kZset, kHash };

enum class ChangeKind : uint8_t {
  kWritten,  // created, or its value or TTL changed
  kDeleted,
  kExpired,  // deleted by its expiry: on access, by ExpireDue, or on a replica by its primary's command
  kFlushed,  // all keys at once; the key is ""
};

// The changes of one call, as commands whose effect does not depend on the time at which they run: expiries are
// absolute, expired keys are UNLINKed by name (deleted ones are DELed), messages are published. They must be applied
// completely and in order.
struct Effects {
  std::vector<std::vector<std::string>> commands;
};

struct KeyFacts {
  std::string_view key;
  KeyType type = KeyType::kNone;
  std::optional<int64_t> expires_ms;  // since 1970; unset: never
};

// Channels of shards have names of their own: here with this byte in front, also towards OnMessage.
inline constexpr char kShardChannel = '\x01';

class Server;

class RedisModel {
 public:
  // An empty primary without scripts. `number` tells servers apart: it goes into the run id.
  explicit RedisModel(int64_t now_us = 0, uint64_t number = 0);
  ~RedisModel();
  RedisModel(RedisModel&&) noexcept;
  RedisModel& operator=(RedisModel&&) noexcept;

  // ---- Calls ----

  // Runs one command for connection `client`, any number >= 0 (it need not be opened). Never null: a failure is an
  // error reply with the text of Redis 7. A client that has subscribed may, as in RESP2, only (un)subscribe and PING.
  // SUBSCRIBE and UNSUBSCRIBE take one channel a call, since a call has one reply.
  store::ReplyPtr Execute(int client, const Argv& argv);

  // For a Cluster's node: asked for each command of a script; on false it fails for a key that is not here. Unset: all
  // keys are here.
  void GateScripts(std::function<bool(std::span<const std::string_view> command)> may_run);

  // Ends the connection and its subscriptions.
  void Disconnect(int client);

  // Each PUBLISH (also one inside a script, before the script's reply) calls this for each subscriber, in the order
  // they subscribed.
  void OnMessage(std::function<void(int client, std::string_view channel, std::string_view payload)> on_message);

  // ---- Time ----

  int64_t now_us() const;
  // Sets any time, also an earlier one. Deletes nothing: an expired key is absent for every reader, and is deleted when
  // a command touches it. As in Redis, a key lives through the millisecond of its expiry: it is expired when now_ms >
  // expires_ms.
  void SetClock(int64_t now_us);
  // Deletes all expired keys, as Redis does in the background: earliest first, then by name. Does nothing on a replica.
  void ExpireDue();
  // SetClock, then ExpireDue.
  void Advance(int64_t now_us);
  // When ExpireDue will have work next: the first microsecond at which a key counts as expired. May be in the past.
  std::optional<int64_t> NextExpiry() const;

  // ---- Trouble ----

  // While not "": the reply to every command, e.g. "BUSY Redis is busy running a script."; no leading '-'. With
  // "LOADING ..." the commands that Redis answers while it loads still work, among them INFO, which reports the
  // loading.
  void RefuseAll(std::string error);
  // While not "": the reply to every command that writes, e.g. "NOREPLICAS Not enough good replicas to write." or
  // "MISCONF ...". Within a script it ends the script like any error.
  void RefuseWrites(std::string error);
  // 0: no limit. A limit of 1 is always exceeded. As in Redis with noeviction: when used_memory() > limit before a
  // call, it refuses commands that may need memory (SET, ZADD, HSET, LPUSH, SADD); within a script only until its first
  // write command has run.
  void SetMaxMemory(uint64_t bytes);
  // A simple estimate: a fixed part, and the bytes of keys and values with a fixed overhead each.
  uint64_t used_memory() const;
  // Restarts the server with its data: connections, subscriptions and scripts are gone, and it has a new run id. As a
  // server that reads its append-only file, it does not say any more that it was a replica once. It starts when its
  // clock is set next.
  void Restart();

  // ---- Replication ----

  // Called after each call (or ExpireDue) that changed something on a primary. Unset: no effects are recorded. The
  // caller keeps the effects for as long as the replica lags, and then passes them to Apply of the other model, in
  // order.
  void OnEffects(std::function<void(const Effects& effects)> on_effects);
  // On a replica only. Does not use its own clock.
  void Apply(const Effects& effects);
  // Replaces all data by those of another model: a full synchronisation, or the return to a snapshot. Scripts,
  // subscriptions, clock, role and callbacks stay. Reported as kFlushed, then kWritten for each key.
  void CopyDataFrom(const RedisModel& other);
  // A replica answers writes with READONLY, reads expired keys as absent and waits for its primary's DEL.
  // `host` and `port`: of the primary, as INFO shows it.
  void BecomeReplica(std::string host = "127.0.0.1", int port = 1);
  // Makes it a primary with its present data. Scripts were never replicated.
  void Promote();
  bool is_replica() const;
  // The replicas that follow it, as INFO shows each: "ip=..,port=..,state=online,offset=..,lag=..".
  void SetReplicas(std::vector<std::string> lines);
  // CONFIG GET shows these as min-replicas-to-write and min-replicas-max-lag. To refuse writes is the caller's part.
  void SetMinReplicas(int count, int max_lag_seconds);

  // INFO and CONFIG GET show these as appendonly, appendfsync ("always", "everysec", "no") and
  // no-appendfsync-on-rewrite. What a restart loses is the caller's part.
  void SetPersistence(bool appends, std::string to_disk, bool rewrites_unsynced = false);

  // ---- Observation ----

  // The data as a client would see them now, without deleting expired keys. Views end with the next call that is not
  // const.

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
