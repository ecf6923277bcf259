// SPDX-License-Identifier: Apache-2.0
#include "bench/lifetime.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "bench/hoard.h"

namespace distlock::bench {
namespace {

constexpr int kStarts = 5;
constexpr int kLeases = 10'000;
constexpr double kTtlSeconds = 3000;

}  // namespace

Sample StartTime(Lab& lab) {
  Sample sample;
  try {
    std::vector<double> seconds;
    for (int i = 0; i < (lab.size().smoke ? 1 : kStarts); ++i) {
      const std::unique_ptr<Daemon> broker = lab.FreshBroker("start");
      seconds.push_back(broker->start_seconds());
      lab.EndFreshBroker(*broker);
    }
    std::sort(seconds.begin(), seconds.end());
    sample.values["ms"] = seconds[seconds.size() / 2] * 1e3;
  } catch (const std::runtime_error& e) {
    sample.error = e.what();
  }
  return sample;
}

Sample DrainTime(Lab& lab, Holders holders) {
  Sample sample;
  try {
    std::vector<std::string> flags;
    if (holders == Holders::kStay) flags = {"--drain-timeout", "0s"};
    const std::unique_ptr<Daemon> broker = lab.FreshBroker("drain", flags);
    Hoard hoard(*broker, static_cast<size_t>(std::min(lab.size().leases, kLeases)), kTtlSeconds);
    hoard.TakeAll();
    const int64_t start = NowNanos();
    broker->AskToStop();
    if (holders == Holders::kLeave) hoard.GoodbyeAll();
    if (!broker->Stop()) throw std::runtime_error("the broker did not end within 60 s of SIGTERM");
    sample.values["ms"] = static_cast<double>(NowNanos() - start) * 1e-6;
    lab.EndFreshBroker(*broker);
  } catch (const std::runtime_error& e) {
    sample.error = e.what();
  }
  return sample;
}

}  // namespace distlock::bench
