// SPDX-License-Identifier: Apache-2.0
#include "bench/load.h"

#include <algorithm>
#include <stdexcept>

namespace distlock::bench {
namespace {

void SleepSeconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

void Problem::Fail(const std::string& what) {
  std::lock_guard lock(mu_);
  if (!found_.exchange(true)) what_ = what;
}

void Problem::Check() const {
  std::lock_guard lock(mu_);
  if (found_) throw std::runtime_error(what_);
}

uint64_t Load::Pairs() const {
  uint64_t pairs = 0;
  for (const Tally& tally : tallies_) pairs += tally.pairs.load(std::memory_order_relaxed);
  return pairs;
}

double Load::Micros(double part) {
  std::vector<int64_t> all;
  for (const Tally& tally : tallies_) all.insert(all.end(), tally.took.begin(), tally.took.end());
  if (all.empty()) return 0;
  const auto at = all.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(all.size() - 1));
  std::nth_element(all.begin(), at, all.end());
  return static_cast<double>(*at) / 1000;
}

void Load::AwaitRest(const std::atomic<size_t>& busy) {
  if (!Eventually([&] { return busy == 0 || found(); })) Fail("some requests were never answered");
}

nlohmann::json Measure(Load& load, double warm_seconds, double seconds) {
  load.Start();
  SleepSeconds(warm_seconds);
  const uint64_t before = load.Pairs();
  const int64_t start = NowNanos();
  load.SetRecording(true);
  SleepSeconds(seconds);
  load.SetRecording(false);
  const auto pairs = static_cast<double>(load.Pairs() - before);
  const double took = static_cast<double>(NowNanos() - start) * 1e-9;
  load.AskToStop();
  load.Stop();
  load.Check();
  if (pairs == 0) throw std::runtime_error("nothing was done");
  return {{"pairs/s", pairs / took}, {"op p50 µs", load.Micros(0.5)}, {"op p99 µs", load.Micros(0.99)}};
}

}  // namespace distlock::bench
