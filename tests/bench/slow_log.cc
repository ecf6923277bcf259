// SPDX-License-Identifier: Apache-2.0
#include "bench/slow_log.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace distlock::bench {
namespace {

constexpr long long kLoggedMicros = 20;  // shorter calls do not matter
constexpr long long kLogEntries = 100'000;

void Command(redisContext* connection, const char* format, long long value) {
  const RedisReply reply(static_cast<redisReply*>(redisCommand(connection, format, value)));
  if (reply == nullptr || reply->type == REDIS_REPLY_ERROR) throw std::runtime_error("redis: CONFIG SET failed");
}

}  // namespace

SlowLog::SlowLog(const Lab& lab) : connection_(lab.Connect()) { Set(kLoggedMicros, kLogEntries); }

SlowLog::~SlowLog() {
  try {
    Set(10'000, 128);  // Redis' defaults
  } catch (const std::runtime_error&) {
    // Only what follows would be logged too.
  }
}

SlowLog::Calls SlowLog::CallsOf(std::string_view script_sha1) const {
  const RedisReply entries(static_cast<redisReply*>(redisCommand(connection_.get(), "SLOWLOG GET %lld", kLogEntries)));
  if (entries == nullptr || entries->type != REDIS_REPLY_ARRAY) throw std::runtime_error("redis: SLOWLOG GET failed");
  std::vector<long long> micros;
  for (size_t i = 0; i < entries->elements; ++i) {
    const redisReply& entry = *entries->element[i];  // id, time, microseconds, arguments, ...
    if (entry.elements < 4 || entry.element[3]->elements < 2) continue;
    const redisReply& script = *entry.element[3]->element[1];
    if (std::string_view(script.str, script.len) == script_sha1) micros.push_back(entry.element[2]->integer);
  }
  if (micros.empty()) micros.push_back(kLoggedMicros);
  std::sort(micros.begin(), micros.end());
  return {static_cast<double>(micros[micros.size() / 2]) * 1e-3, static_cast<double>(micros.back()) * 1e-3};
}

void SlowLog::Set(long long micros, long long entries) {
  Command(connection_.get(), "CONFIG SET slowlog-log-slower-than %lld", micros);
  Command(connection_.get(), "CONFIG SET slowlog-max-len %lld", entries);
  Command(connection_.get(), "SLOWLOG RESET", 0);
}

}  // namespace distlock::bench
