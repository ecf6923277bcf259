// SPDX-License-Identifier: Apache-2.0
#include "redis/redis_model.h"

#include <cinttypes>
#include <cstdio>
#include <limits>
#include <span>

#include "redis/server.h"

namespace distlock::sim {
namespace {

// The memory of a server without data, roughly.
constexpr uint64_t kEmptyBytes = 900'000;

// A value for reading: nullptr when absent or of another type.
template <typename T>
const T* Look(const Server& server, std::string_view key) {
  const Entry* entry = server.keys.Look(key);
  return entry == nullptr ? nullptr : std::get_if<T>(&entry->value);
}

}  // namespace

uint64_t Server::used_memory() const { return kEmptyBytes + keys.Bytes(); }

const Script* Server::FindScript(std::string_view sha1) const {
  for (const Script* script : scripts) {
    if (script->sha1 == sha1 || SameWord(sha1, script->sha1)) return script;
  }
  return nullptr;
}

void Server::AddScript(const Script* script) {
  if (std::find(scripts.begin(), scripts.end(), script) == scripts.end()) scripts.push_back(script);
}

int64_t Server::Publish(std::string_view channel, std::string_view payload) {
  int64_t heard = 0;
  for (const auto& [name, client] : subscriptions) {
    if (name != channel) continue;
    ++heard;
    if (on_message) on_message(client, channel, payload);
  }
  return heard;
}

int64_t Server::CountSubscriptions(int client) const {
  return std::count_if(subscriptions.begin(), subscriptions.end(),
                       [&](const auto& subscription) { return subscription.second == client; });
}

std::string Server::RunId() const {
  char text[41];
  std::snprintf(text, sizeof text, "%032" PRIx64 "%08" PRIx32, number, restarts);
  return text;
}

std::string Server::ReplicationId() const {
  char text[41];
  std::snprintf(text, sizeof text, "%08" PRIx32 "%024" PRIx64 "%08" PRIx32, promotions, number, restarts);
  return text;
}

RedisModel::RedisModel(int64_t now_us, uint64_t number) : server_(std::make_unique<Server>()) {
  server_->keys.now_us = now_us;
  server_->number = number;
}
RedisModel::~RedisModel() = default;
RedisModel::RedisModel(RedisModel&&) noexcept = default;
RedisModel& RedisModel::operator=(RedisModel&&) noexcept = default;

store::ReplyPtr RedisModel::Execute(int client, const Argv& argv) {
  ReplyTree reply;
  RunForClient(*server_, client, argv, reply);
  return reply.Take();
}

void RedisModel::Disconnect(int client) {
  std::erase_if(server_->subscriptions, [&](const auto& subscription) { return subscription.second == client; });
}

void RedisModel::GateScripts(std::function<bool(std::span<const std::string_view>)> may_run) {
  server_->may_script_run = std::move(may_run);
}

void RedisModel::OnMessage(std::function<void(int, std::string_view, std::string_view)> on_message) {
  server_->on_message = std::move(on_message);
}

int64_t RedisModel::now_us() const { return server_->keys.now_us; }
void RedisModel::SetClock(int64_t now_us) {
  server_->keys.now_us = now_us;
  if (!server_->started_us) server_->started_us = now_us;
}
void RedisModel::ExpireDue() { server_->keys.ExpireDue(); }

void RedisModel::Advance(int64_t now_us) {
  SetClock(now_us);
  ExpireDue();
}

std::optional<int64_t> RedisModel::NextExpiry() const {
  const int64_t ms = server_->keys.EarliestExpiryMs();
  if (ms == kNeverMs || server_->keys.replica) return std::nullopt;
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  return ms >= kLast / 1000 - 1 ? kLast : (ms + 1) * 1000;
}

void RedisModel::RefuseAll(std::string error) { server_->refuse_all = std::move(error); }
void RedisModel::RefuseWrites(std::string error) { server_->refuse_writes = std::move(error); }
void RedisModel::SetMaxMemory(uint64_t bytes) { server_->max_memory = bytes; }
uint64_t RedisModel::used_memory() const { return server_->used_memory(); }

void RedisModel::Restart() {
  server_->subscriptions.clear();
  server_->scripts.clear();
  ++server_->restarts;
  server_->was_replica = server_->was_fed = server_->was_emptied = false;
  server_->started_us.reset();
}

void RedisModel::OnEffects(std::function<void(const Effects&)> on_effects) {
  server_->keys.on_effects = std::move(on_effects);
}

void RedisModel::Apply(const Effects& effects) {
  Keyspace& keys = server_->keys;
  keys.BeginApply();
  for (const auto& command : effects.commands) {
    RunEffect(*server_, std::vector<std::string_view>(command.begin(), command.end()));
  }
  keys.EndApply();
}

void RedisModel::CopyDataFrom(const RedisModel& other) {
  server_->was_fed |= server_->keys.replica;
  server_->keys.CopyFrom(other.server_->keys);
}
void RedisModel::BecomeReplica(std::string host, int port) {
  server_->keys.replica = true;
  server_->primary_host = std::move(host);
  server_->primary_port = port;
}
void RedisModel::Promote() {
  server_->promotions += server_->keys.replica ? 1 : 0;
  server_->was_replica |= server_->keys.replica;
  server_->keys.replica = false;
}
bool RedisModel::is_replica() const { return server_->keys.replica; }
void RedisModel::SetReplicas(std::vector<std::string> lines) { server_->replicas = std::move(lines); }
void RedisModel::SetMinReplicas(int count, int max_lag_seconds) {
  server_->min_replicas = count;
  server_->max_lag_seconds = max_lag_seconds;
}

void RedisModel::SetPersistence(bool appends, std::string to_disk, bool rewrites_unsynced) {
  server_->appends = appends;
  server_->rewrites_unsynced = rewrites_unsynced;
  server_->appends_to_disk = std::move(to_disk);
}

void RedisModel::OnChange(std::function<void(std::string_view, ChangeKind)> on_change) {
  server_->keys.on_change = std::move(on_change);
}

KeyType RedisModel::Type(std::string_view key) const {
  const Entry* entry = server_->keys.Look(key);
  return entry == nullptr ? KeyType::kNone : entry->type();
}

std::optional<std::string_view> RedisModel::String(std::string_view key) const {
  const auto* text = Look<std::string>(*server_, key);
  if (text == nullptr) return std::nullopt;
  return *text;
}

std::vector<std::pair<std::string_view, double>> RedisModel::Zset(std::string_view key) const {
  std::vector<std::pair<std::string_view, double>> members;
  if (const auto* zset = Look<ZsetValue>(*server_, key)) {
    for (const auto& [score, member] : *zset) members.emplace_back(member, score);
  }
  return members;
}

std::vector<std::pair<std::string_view, std::string_view>> RedisModel::Hash(std::string_view key) const {
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  if (const auto* hash = Look<HashValue>(*server_, key)) fields.assign(hash->begin(), hash->end());
  return fields;
}

int64_t RedisModel::Pttl(std::string_view key) const {
  const Entry* entry = server_->keys.Look(key);
  if (entry == nullptr) return -2;
  if (entry->expires_ms == kNeverMs) return -1;
  return std::max<int64_t>(0, entry->expires_ms - server_->keys.now_ms());
}

std::vector<KeyFacts> RedisModel::Keys() const {
  std::vector<KeyFacts> facts;
  for (const auto& [key, entry] : server_->keys.entries()) {
    if (server_->keys.IsExpired(entry)) continue;
    KeyFacts fact{key, entry.type(), std::nullopt};
    if (entry.expires_ms != kNeverMs) fact.expires_ms = entry.expires_ms;
    facts.push_back(fact);
  }
  return facts;
}

bool RedisModel::HasScript(std::string_view sha1) const { return server_->FindScript(sha1) != nullptr; }

std::vector<int> RedisModel::Subscribers(std::string_view channel) const {
  std::vector<int> clients;
  for (const auto& [name, client] : server_->subscriptions) {
    if (name == channel) clients.push_back(client);
  }
  return clients;
}

}  // namespace distlock::sim
