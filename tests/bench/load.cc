// SPDX-License-Identifier: Apache-2.0
#include "bench/load.h"

#include <stdexcept>
#include <thread>
#include <utility>

namespace distlock::bench {
namespace {

void SleepSeconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

void Load::Fail(const std::string& what) {
  {
    std::lock_guard lock(mu_);
    if (error_.empty()) error_ = what;
  }
  stopping_ = true;
}

std::string Load::error() const {
  std::lock_guard lock(mu_);
  return error_;
}

uint64_t Load::Pairs() const {
  uint64_t pairs = 0;
  for (const Tally& tally : tallies_) pairs += tally.pairs.load(std::memory_order_relaxed);
  return pairs;
}

Histogram Load::Latencies() const {
  Histogram all;
  for (const Tally& tally : tallies_) all.Merge(tally.op_latency);
  return all;
}

Sample Measure(const Lab& lab, Load& load, bool through_broker) {
  Servers servers{lab.redis_pid(), {}, lab.other_pids()};
  for (size_t i = 0; through_broker && i < lab.broker_count(); ++i) servers.daemons.push_back(lab.broker(i).pid());
  return Measure(lab.size(), servers, load);
}

Sample Measure(const Size& size, const Servers& servers, Load& load) {
  Sample sample;
  try {
    load.Start();
    SleepSeconds(size.warm_seconds);
    const CpuMeter cpu(servers);
    const uint64_t before = load.Pairs();
    const int64_t start = NowNanos();
    load.Record(true);
    SleepSeconds(size.seconds);
    load.Record(false);
    const auto pairs = static_cast<double>(load.Pairs() - before);
    const double seconds = static_cast<double>(NowNanos() - start) * 1e-9;
    sample.values["pairs/s"] = pairs / seconds;
    if (pairs > 0) cpu.PerUnit(pairs, &sample);
    if (pairs == 0) load.Fail("nothing was done");
  } catch (const std::runtime_error& e) {
    load.Fail(e.what());
  }
  load.AskToStop();
  load.Stop();
  const Histogram latencies = load.Latencies();
  sample.values["op p50 µs"] = latencies.Micros(0.5);
  sample.values["op p99 µs"] = latencies.Micros(0.99);
  sample.error = load.error();
  return sample;
}

Sample MeasureFresh(Lab& lab, const std::string& name, const std::vector<std::string>& more_flags,
                    const std::function<std::unique_ptr<Load>(const Daemon&)>& make) {
  Sample sample;
  try {
    const std::unique_ptr<Daemon> broker = lab.FreshBroker(name, more_flags);
    const std::unique_ptr<Load> load = make(*broker);
    sample = Measure(lab.size(), {lab.redis_pid(), {broker->pid()}}, *load);
    lab.EndFreshBroker(*broker);
  } catch (const std::runtime_error& e) {
    if (sample.error.empty()) sample.error = e.what();
  }
  return sample;
}

CpuMeter::CpuMeter(Servers servers)
    : servers_(std::move(servers)), client_(OwnCpuSeconds()), redis_(Redis()), daemons_(Daemons()) {}

double CpuMeter::Redis() const {
  double seconds = CpuSeconds(servers_.redis);
  for (const pid_t other : servers_.others) seconds += CpuSeconds(other);
  return seconds;
}

double CpuMeter::Daemons() const {
  double seconds = 0;
  for (const pid_t daemon : servers_.daemons) seconds += CpuSeconds(daemon);
  return seconds;
}

void CpuMeter::PerUnit(double units, Sample* sample) const {
  const double scale = 1e6 / units;
  sample->values["client CPU"] = (OwnCpuSeconds() - client_) * scale;
  sample->values["redis CPU"] = (Redis() - redis_) * scale;
  if (!servers_.daemons.empty()) sample->values["daemon CPU"] = (Daemons() - daemons_) * scale;
}

}  // namespace distlock::bench
