// SPDX-License-Identifier: Apache-2.0
#include "bench/direct.h"

#include <stdexcept>
#include <thread>
#include <vector>

#include "lua/scripts_data.h"

namespace distlock::bench {
namespace {

constexpr const char* kCompareAndDelete =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
constexpr const char* kFencedSet =
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end return 0";
constexpr const char* kTtlMs = "15000";
constexpr const char* kTokenKeepMs = "86400000";
constexpr const char* kFairAfterUs = "100000";
constexpr const char* kNoHoldOff = "0";
constexpr const char* kBrokerId = "00000000000be9c4";
constexpr std::string_view kNoToken = "................";  // as long as a token
constexpr const char* kInfo = "....................";  // as long as a broker's for a request without owner or metadata

// Set by LoadScripts, before any load starts.
std::string compare_and_delete_sha;
std::string fenced_set_sha;

std::string Resp(const std::vector<std::string>& args) {
  std::string out = "*" + std::to_string(args.size()) + "\r\n";
  for (const std::string& arg : args) out += "$" + std::to_string(arg.size()) + "\r\n" + arg + "\r\n";
  return out;
}

std::string LoadScript(redisContext* connection, const std::string& body) {
  const RedisReply reply(
      static_cast<redisReply*>(redisCommand(connection, "SCRIPT LOAD %b", body.data(), body.size())));
  if (reply == nullptr || reply->type != REDIS_REPLY_STRING) throw std::runtime_error("redis: SCRIPT LOAD failed");
  return reply->str;
}

std::string Wrong(const char* what, const redisReply* reply) {
  if (reply == nullptr) return std::string(what) + ": the connection failed";
  if (reply->type == REDIS_REPLY_ERROR) return std::string(what) + ": " + reply->str;
  return std::string(what) + ": unexpected reply of type " + std::to_string(reply->type);
}

bool IsCode(const redisReply* reply, long long code) {
  return reply != nullptr && reply->type == REDIS_REPLY_ARRAY && reply->elements >= 2 &&
         reply->element[0]->type == REDIS_REPLY_INTEGER && reply->element[0]->integer == code;
}

class SyncLoad final : public Load {
 public:
  SyncLoad(const Lab& lab, DirectKind kind, size_t clients, Transport over)
      : Load(clients), lab_(lab), kind_(kind), clients_(clients), over_(over) {}

  void Start() override {
    for (size_t i = 0; i < clients_; ++i) connections_.push_back(lab_.Connect(over_));
    DirectSlot::LoadScripts(connections_[0].get());
    for (size_t i = 0; i < clients_; ++i) threads_.emplace_back([this, i] { Run(i); });
  }

  void Stop() override {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Run(size_t i) {
    DirectSlot slot(kind_, "sync-" + std::to_string(i));
    Tally& mine = tally(i);
    while (!stopping()) {
      std::string problem = slot.CheckAcquired(Ask(i, slot.acquire()).get());
      if (problem.empty()) problem = slot.CheckReleased(Ask(i, slot.release()).get());
      if (!problem.empty()) return Fail(problem);
      mine.pairs.fetch_add(1, std::memory_order_relaxed);
    }
  }

  RedisReply Ask(size_t i, const std::string& command) {
    const bool timed = recording();
    const int64_t start = timed ? NowNanos() : 0;
    void* reply = nullptr;
    redisAppendFormattedCommand(connections_[i].get(), command.data(), command.size());
    redisGetReply(connections_[i].get(), &reply);
    if (timed) tally(i).op_latency.Record(NowNanos() - start);
    return RedisReply(static_cast<redisReply*>(reply));
  }

  const Lab& lab_;
  const DirectKind kind_;
  const size_t clients_;
  const Transport over_;
  std::vector<RedisConnection> connections_;
  std::vector<std::thread> threads_;
};

}  // namespace

void DirectSlot::LoadScripts(redisContext* connection) {
  LoadScript(connection, std::string(lua::kAcquire.body));
  LoadScript(connection, std::string(lua::kRelease.body));
  compare_and_delete_sha = LoadScript(connection, kCompareAndDelete);
  fenced_set_sha = LoadScript(connection, kFencedSet);
}

DirectSlot::DirectSlot(DirectKind kind, const std::string& name) : kind_(kind) {
  std::string owner = std::to_string(std::hash<std::string>()(name));
  owner.insert(0, 32 - owner.size(), '0');
  const std::string base = "dl:{default/direct-" + name + "}:";
  const std::string h = base + "h";
  if (kind != DirectKind::kScripts) {
    acquire_ = kind == DirectKind::kSetNx ? Resp({"SET", h, owner, "NX", "PX", kTtlMs})
                                          : Resp({"EVALSHA", fenced_set_sha, "2", h, base + "fence", owner, kTtlMs});
    release_ = Resp({"EVALSHA", compare_and_delete_sha, "1", h, owner});
    return;
  }
  const std::string t = base + "t", q = base + "q", w = base + "w";
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

std::string DirectSlot::CheckAcquired(const redisReply* reply) {
  if (kind_ == DirectKind::kSetNx) {
    const bool done = reply != nullptr && reply->type == REDIS_REPLY_STATUS && std::string_view(reply->str) == "OK";
    return done ? "" : Wrong("SET NX", reply);
  }
  if (kind_ == DirectKind::kFenced) {
    const bool grew = reply != nullptr && reply->type == REDIS_REPLY_INTEGER && reply->integer > last_number_;
    if (!grew) return Wrong("fenced SET NX", reply);
    last_number_ = reply->integer;
    return "";
  }
  if (!IsCode(reply, 1) || reply->elements < 3) return Wrong("acquire.lua", reply);
  const std::string_view token(reply->element[2]->str, reply->element[2]->len);
  // All of them have 16 digits.
  if (token <= last_token_) return "acquire.lua: the fencing token did not grow";
  last_token_ = token;
  release_.replace(token_at_, kNoToken.size(), token);
  return "";
}

std::string DirectSlot::CheckReleased(const redisReply* reply) const {
  if (kind_ == DirectKind::kScripts) return IsCode(reply, 7) ? "" : Wrong("release.lua", reply);
  const bool done = reply != nullptr && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
  return done ? "" : Wrong("compare-and-delete", reply);
}

std::unique_ptr<Load> DirectSync(const Lab& lab, DirectKind kind, size_t clients, Transport over) {
  return std::make_unique<SyncLoad>(lab, kind, clients, over);
}

}  // namespace distlock::bench
