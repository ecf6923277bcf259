// SPDX-License-Identifier: Apache-2.0
#include "bench/renewals.h"

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bench/hoard.h"
#include "lua/scripts_data.h"

namespace distlock::bench {
namespace {

constexpr double kGoalInterval = 10;  // seconds between two renewals of a lease
constexpr double kGoalLeases = 100'000;
constexpr long long kLoggedMicros = 20;  // shorter calls are of no interest
constexpr long long kLogEntries = 100'000;

void Command(redisContext* connection, const char* format, long long value) {
  const RedisReply reply(static_cast<redisReply*>(redisCommand(connection, format, value)));
  if (reply == nullptr || reply->type == REDIS_REPLY_ERROR) throw std::runtime_error("redis: CONFIG SET failed");
}

// Redis' log of slow commands, for as long as this lives.
class SlowLog {
 public:
  explicit SlowLog(const Lab& lab) : connection_(lab.Connect()) { Set(kLoggedMicros, kLogEntries); }
  ~SlowLog() {
    try {
      Set(10'000, 128);  // Redis' defaults
    } catch (const std::runtime_error&) {
      // Only what follows would be logged too.
    }
  }

  // What each call for renewals took, but for those shorter than kLoggedMicros.
  std::vector<long long> RenewalMicros() const {
    const RedisReply entries(
        static_cast<redisReply*>(redisCommand(connection_.get(), "SLOWLOG GET %lld", kLogEntries)));
    if (entries == nullptr || entries->type != REDIS_REPLY_ARRAY) throw std::runtime_error("redis: SLOWLOG GET failed");
    std::vector<long long> micros;
    for (size_t i = 0; i < entries->elements; ++i) {
      const redisReply& entry = *entries->element[i];  // id, time, microseconds, arguments, ...
      if (entry.elements < 4 || entry.element[3]->elements < 2) continue;
      const redisReply& script = *entry.element[3]->element[1];
      if (std::string_view(script.str, script.len) != lua::kRenew.sha1) continue;
      micros.push_back(entry.element[2]->integer);
    }
    std::sort(micros.begin(), micros.end());
    return micros;
  }

 private:
  void Set(long long micros, long long entries) {
    Command(connection_.get(), "CONFIG SET slowlog-log-slower-than %lld", micros);
    Command(connection_.get(), "CONFIG SET slowlog-max-len %lld", entries);
    Command(connection_.get(), "SLOWLOG RESET", 0);
  }

  RedisConnection connection_;
};

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// What a second costs, by watching for some.
struct Rates {
  double daemon_cpu;
  double redis_cpu;
  double scripts;
};

Rates Watch(const Lab& lab, const Daemon& broker, double seconds) {
  const int64_t start = NowNanos();
  const double daemon = CpuSeconds(broker.pid());
  const double redis = CpuSeconds(lab.redis_pid());
  const double scripts = lab.RedisCalls("evalsha");
  Sleep(seconds);
  const double passed = static_cast<double>(NowNanos() - start) * 1e-9;
  return {(CpuSeconds(broker.pid()) - daemon) / passed, (CpuSeconds(lab.redis_pid()) - redis) / passed,
          (lab.RedisCalls("evalsha") - scripts) / passed};
}

}  // namespace

double PercentAtGoal(const Size& size, double cpu) {
  return cpu * 100 * (size.renewal_ttl_seconds / 3 / kGoalInterval) * (kGoalLeases / size.leases);
}

Sample Renewals(Lab& lab) {
  Sample sample;
  try {
    const double ttl = lab.size().renewal_ttl_seconds;
    const double seconds = lab.size().renewal_watch_seconds;
    const double interval = ttl / 3;
    const std::unique_ptr<Daemon> broker = lab.FreshBroker("renewals");
    Hoard hoard(*broker, static_cast<size_t>(lab.size().leases), ttl);
    const Rates idle = Watch(lab, *broker, seconds / 3);
    hoard.TakeAll();
    Sleep(interval);  // the first renewals begin
    const Rates busy = Watch(lab, *broker, seconds);
    const SlowLog log(lab);  // writing it would be part of the CPU watched
    Sleep(interval);
    sample.values["daemon CPU %"] = PercentAtGoal(lab.size(), busy.daemon_cpu - idle.daemon_cpu);
    sample.values["redis CPU %"] = PercentAtGoal(lab.size(), busy.redis_cpu - idle.redis_cpu);
    sample.values["EVALSHA/s"] = busy.scripts - idle.scripts;
    const auto calls = log.RenewalMicros();
    sample.values["call ms"] = static_cast<double>(calls.empty() ? kLoggedMicros : calls[calls.size() / 2]) * 1e-3;
    sample.values["longest ms"] = static_cast<double>(calls.empty() ? kLoggedMicros : calls.back()) * 1e-3;
    if (busy.scripts <= idle.scripts) throw std::runtime_error("nothing was renewed");
    hoard.CheckAllHeld();
    hoard.GoodbyeAll();
    hoard.WaitUntilFreed();
    lab.EndFreshBroker(*broker);
  } catch (const std::runtime_error& e) {
    sample.error = e.what();
  }
  return sample;
}

}  // namespace distlock::bench
