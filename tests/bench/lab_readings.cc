// SPDX-License-Identifier: Apache-2.0
// What a Lab reads from its Redis and of its processes.
#include <sstream>
#include <stdexcept>

#include "bench/lab.h"

namespace distlock::bench {
namespace {

void Unlink(redisContext* context, const redisReply& keys) {
  for (size_t i = 0; i < keys.elements; ++i) {
    redisAppendCommand(context, "UNLINK %b", keys.element[i]->str, keys.element[i]->len);
  }
  for (size_t i = 0; i < keys.elements; ++i) {
    void* reply = nullptr;
    if (redisGetReply(context, &reply) != REDIS_OK) throw std::runtime_error("redis: UNLINK was not answered");
    freeReplyObject(reply);
  }
}

}  // namespace

std::string Lab::RedisInfo(const std::string& section, std::string_view line) const {
  const RedisConnection context = Connect();
  const RedisReply reply(static_cast<redisReply*>(redisCommand(context.get(), "INFO %s", section.c_str())));
  if (reply == nullptr || reply->str == nullptr) throw std::runtime_error("redis: INFO was not answered");
  std::istringstream lines(std::string(reply->str, reply->len));
  for (std::string text; std::getline(lines, text);) {
    if (text.starts_with(line) && text.size() > line.size() && text[line.size()] == ':') {
      return text.substr(line.size() + 1, text.find('\r') - line.size() - 1);
    }
  }
  return "";
}

double Lab::RedisCalls(std::string_view command) const {
  const RedisConnection context = Connect();
  const RedisReply reply(static_cast<redisReply*>(redisCommand(context.get(), "INFO commandstats")));
  if (reply == nullptr || reply->str == nullptr) throw std::runtime_error("redis: INFO was not answered");
  std::istringstream lines(std::string(reply->str, reply->len));
  double calls = 0;
  for (std::string text; std::getline(lines, text);) {
    const size_t colon = text.find(":calls=");
    if (!text.starts_with("cmdstat_") || colon == std::string::npos) continue;
    const std::string name = text.substr(8, colon - 8);
    if (name == "info" || (!command.empty() && name != command)) continue;
    calls += std::stod(text.substr(colon + 7));
  }
  return calls;
}

size_t Lab::RedisKeys(const std::string& pattern, bool remove) const {
  const RedisConnection context = Connect();
  std::string cursor = "0";
  size_t found = 0;
  do {
    const RedisReply reply(static_cast<redisReply*>(
        redisCommand(context.get(), "SCAN %s MATCH %s COUNT 1000", cursor.c_str(), pattern.c_str())));
    if (reply == nullptr || reply->type != REDIS_REPLY_ARRAY) throw std::runtime_error("redis: SCAN was not answered");
    cursor = reply->element[0]->str;
    found += reply->element[1]->elements;
    if (remove) Unlink(context.get(), *reply->element[1]);
  } while (cursor != "0");
  return found;
}

double Lab::OursCpuSeconds() const {
  double seconds = OwnCpuSeconds() + EndedChildrenCpuSeconds() + ServersCpuSeconds();
  if (durable_ != nullptr) seconds += durable_->ServersCpuSeconds();
  for (const auto& [servers, lab] : quorums_) seconds += lab->ServersCpuSeconds();
  for (const auto& [_, lab] : clusters_) seconds += lab->ServersCpuSeconds();
  return seconds;
}

double Lab::ServersCpuSeconds() const {
  double seconds = CpuSeconds(redis_->pid());
  if (delay_proxy_ != nullptr) seconds += CpuSeconds(delay_proxy_->pid());
  for (const auto& other : others_) seconds += CpuSeconds(other->pid());
  for (const auto& broker : brokers_) seconds += CpuSeconds(broker->pid());
  return seconds;
}

}  // namespace distlock::bench
