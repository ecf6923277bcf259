// SPDX-License-Identifier: Apache-2.0
#include "bench/direct_slot.h"

#include <stdexcept>
#include <vector>

#include "lua/scripts_data.h"

namespace distlock::bench {
namespace {

constexpr const char* kCompareAndDelete =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
constexpr const char* kTtlMs = "15000";
constexpr const char* kTokenKeepMs = "86400000";
constexpr const char* kFairAfterUs = "100000";
constexpr const char* kNoHoldOff = "0";
constexpr const char* kBrokerId = "00000000000be9c4";
constexpr std::string_view kNoToken = "................";  // as long as a token
constexpr const char* kInfo = "....................";  // as long as a broker's for a request without owner or metadata
constexpr int kGranted = 1;
constexpr int kReleased = 7;

// Set by LoadScripts, before any slot is made.
std::string compare_and_delete_sha;

std::string Resp(const std::vector<std::string>& args) {
  std::string out = "*" + std::to_string(args.size()) + "\r\n";
  for (const std::string& arg : args) out += "$" + std::to_string(arg.size()) + "\r\n" + arg + "\r\n";
  return out;
}

std::string LoadScript(redisContext* connection, std::string_view body) {
  const RedisReply reply(
      static_cast<redisReply*>(redisCommand(connection, "SCRIPT LOAD %b", body.data(), body.size())));
  if (reply == nullptr || reply->type != REDIS_REPLY_STRING) throw std::runtime_error("redis: SCRIPT LOAD failed");
  return reply->str;
}

std::string OwnerOf(const std::string& name) {
  std::string owner = std::to_string(std::hash<std::string>()(name));
  return owner.insert(0, 32 - owner.size(), '0');
}

std::string KeysOf(const std::string& name) { return "dl:{default/direct-" + name + "}:"; }

bool IsCode(const redisReply& reply, long long code) {
  return reply.type == REDIS_REPLY_ARRAY && reply.elements >= 2 && reply.element[0]->type == REDIS_REPLY_INTEGER &&
         reply.element[0]->integer == code;
}

}  // namespace

RedisConnection ConnectRedis(int port) {
  RedisConnection connection(redisConnect("127.0.0.1", port));
  if (connection == nullptr || connection->err != 0) {
    throw std::runtime_error(std::string("redis: ") + (connection == nullptr ? "no memory" : connection->errstr));
  }
  return connection;
}

void LoadScripts(redisContext* connection) {
  LoadScript(connection, lua::kAcquire.body);
  LoadScript(connection, lua::kRelease.body);
  compare_and_delete_sha = LoadScript(connection, kCompareAndDelete);
}

std::string TextOf(const redisReply& reply) {
  return reply.str != nullptr ? std::string(reply.str, reply.len) : std::to_string(reply.integer);
}

PlainSlot::PlainSlot(const std::string& name)
    : acquire_(Resp({"SET", KeysOf(name) + "h", OwnerOf(name), "NX", "PX", kTtlMs})),
      release_(Resp({"EVALSHA", compare_and_delete_sha, "1", KeysOf(name) + "h", OwnerOf(name)})) {}

bool PlainSlot::Take(std::string_view answer) {
  const bool right = answer == (holding_ ? "1" : "OK");
  holding_ = !holding_;
  return right;
}

ScriptSlot::ScriptSlot(const std::string& name) {
  const std::string owner = OwnerOf(name);
  const std::string base = KeysOf(name);
  const std::string h = base + "h", t = base + "t", q = base + "q", w = base + "w";
  acquire_ = Resp({"EVALSHA",
                   std::string(lua::kAcquire.sha1),
                   "4",
                   h,
                   t,
                   q,
                   w,
                   owner,
                   kTtlMs,
                   "0",
                   "0",
                   "0",
                   kBrokerId,
                   "30000",
                   kInfo,
                   kTokenKeepMs,
                   "1",
                   "10000",
                   "x",
                   "0",
                   kFairAfterUs,
                   kNoHoldOff});
  release_ = Resp({"EVALSHA", std::string(lua::kRelease.sha1), "4", h, t, q, w, owner, std::string(kNoToken), "0",
                   kTokenKeepMs, "1", kBrokerId, kFairAfterUs, kNoHoldOff});
  token_at_ = release_.find(kNoToken, release_.rfind(owner) + owner.size());
}

bool ScriptSlot::Take(const redisReply& reply) {
  holding_ = !holding_;
  if (!holding_) return IsCode(reply, kReleased);
  if (!IsCode(reply, kGranted) || reply.elements < 3) return false;
  const std::string token = TextOf(*reply.element[2]);
  // All of them have 16 digits.
  const bool grew = token.size() == kNoToken.size() && token > last_token_;
  last_token_ = token;
  release_.replace(token_at_, kNoToken.size(), token);
  return grew;
}

}  // namespace distlock::bench
