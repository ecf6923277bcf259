// SPDX-License-Identifier: Apache-2.0
//
// A program's commands to Redis for one lock without a broker, formatted beforehand, and checks of each answer: the
// fastest clients of their kind. Values; any thread.
#pragma once

#include <hiredis/hiredis.h>

#include <memory>
#include <string>
#include <string_view>

namespace distlock::bench {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using RedisReply = std::unique_ptr<redisReply, FreeReply>;

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using RedisConnection = std::unique_ptr<redisContext, FreeContext>;

// On loopback TCP. Throws std::runtime_error.
RedisConnection ConnectRedis(int port);

// Loads all scripts that slots name, for all connections.
void LoadScripts(redisContext* connection);

// The answer as text: of a status, a string or a number.
std::string TextOf(const redisReply& reply);

// SET NX PX, and compare-and-delete by a script: no fencing token, no queue.
class PlainSlot {
 public:
  explicit PlainSlot(const std::string& name);

  bool holding() const { return holding_; }
  // The next command, in RESP.
  const std::string& next() const { return holding_ ? release_ : acquire_; }
  // Whether the answer to it is right; then it is the other's turn.
  bool Take(std::string_view answer);
  bool Take(const redisReply& reply) { return Take(TextOf(reply)); }

 private:
  std::string acquire_;
  std::string release_;
  bool holding_ = false;
};

// The broker's acquire.lua and release.lua.
class ScriptSlot {
 public:
  explicit ScriptSlot(const std::string& name);

  bool holding() const { return holding_; }
  const std::string& next() const { return holding_ ? release_ : acquire_; }
  bool Take(const redisReply& reply);

 private:
  std::string acquire_;
  std::string release_;
  size_t token_at_ = 0;  // in release_
  std::string last_token_;
  bool holding_ = false;
};

}  // namespace distlock::bench
