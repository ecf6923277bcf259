// SPDX-License-Identifier: Apache-2.0
#include "bench/renewals.h"

#include <stdexcept>
#include <thread>

#include "bench/hoard.h"
#include "bench/slow_log.h"
#include "lua/scripts_data.h"

namespace distlock::bench {
namespace {

constexpr double kGoalInterval = 10;  // seconds between two renewals of a lease
constexpr double kGoalLeases = 100'000;

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// The cost of a second, averaged over several.
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
    const auto calls = log.CallsOf(lua::kRenew.sha1);
    sample.values["call ms"] = calls.median_ms;
    sample.values["longest ms"] = calls.longest_ms;
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
