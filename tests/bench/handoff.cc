// SPDX-License-Identifier: Apache-2.0
#include "bench/handoff.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>

#include "bench/hoard.h"
#include "bench/party.h"

namespace distlock::bench {
namespace {

constexpr std::chrono::seconds kQueueTimeout{10};

// Lends Parties its flags, error and tally.
class ContendedLoad final : public Load {
 public:
  ContendedLoad(const Lab& lab, size_t parties, size_t brokers, bool hot)
      : Load(1), lab_(lab), count_(parties), brokers_(brokers), hot_(hot) {}

  void Start() override {
    parties_ = std::make_unique<Parties>(lab_, count_, brokers_, this, hot_);
    for (size_t i = 0; hot_ && i < count_; ++i) parties_->Acquire(i);
  }

  void Stop() override {
    if (parties_ == nullptr) return;
    try {
      if (error().empty()) parties_->WaitAllReleased();
    } catch (const std::runtime_error& e) {
      Fail(e.what());
    }
    parties_->Close();
  }

  Parties& parties() { return *parties_; }

 private:
  const Lab& lab_;
  const size_t count_;
  const size_t brokers_;
  const bool hot_;
  std::unique_ptr<Parties> parties_;
};

// Runs `body` on idle parties and stops them.
template <typename Body>
Sample Driven(const Lab& lab, size_t parties, size_t brokers, Body body) {
  Sample sample;
  ContendedLoad load(lab, parties, brokers, false);
  try {
    load.Start();
    body(load.parties(), &sample);
  } catch (const std::runtime_error& e) {
    load.Fail(e.what());
  }
  load.AskToStop();
  load.Stop();
  sample.error = load.error();
  return sample;
}

// Party 0 holds the lock, and the others queue behind it in the order of their numbers.
void QueueUp(Parties& parties, size_t waiters) {
  parties.Acquire(0);
  parties.WaitGranted();
  for (size_t i = 1; i <= waiters; ++i) {
    parties.Acquire(i);
    parties.WaitQueued(i);  // requests on different connections have no order
  }
}

// Over several of the waits between two looks at a lock, so that one more or less does not matter.
double ScriptCallsPerSecond(const Lab& lab) {
  const double seconds = 3 * lab.size().watch_seconds;
  const double before = lab.RedisCalls("evalsha");
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return (lab.RedisCalls("evalsha") - before) / seconds;
}

double DaemonCpu(const Lab& lab) { return CpuSeconds(lab.broker(0).pid()); }

}  // namespace

std::vector<std::chrono::milliseconds> IdlePauses(const Size& size) {
  std::mt19937 random(20);  // NOLINT: the same pauses in every round
  std::uniform_int_distribution<int> pause_ms(20, 150);
  std::vector<std::chrono::milliseconds> pauses;
  for (int i = 0; i < size.idle_handoffs; ++i) pauses.emplace_back(pause_ms(random));
  return pauses;
}

Sample HotHandoff(const Lab& lab, size_t parties, size_t brokers) {
  ContendedLoad load(lab, parties, brokers, true);
  const double calls = lab.RedisCalls("evalsha");
  Sample sample = Measure(lab, load, true);
  std::map<std::string, double>& values = sample.values;
  values["calls/grant"] = (lab.RedisCalls("evalsha") - calls) / static_cast<double>(load.Pairs());
  values["p50 µs"] = values["op p50 µs"];
  values["p99 µs"] = values["op p99 µs"];
  values["grants/s"] = values["pairs/s"];
  if (sample.error.empty()) {
    const auto [least, most] = std::minmax_element(load.parties().grants().begin(), load.parties().grants().end());
    values["least/most"] = *most == 0 ? 0 : static_cast<double>(*least) / static_cast<double>(*most);
  }
  return sample;
}

Sample IdleHandoff(const Lab& lab, size_t brokers) {
  return Driven(lab, 2, brokers, [&lab](Parties& parties, Sample* sample) {
    Histogram latency;
    size_t holder = 0;
    QueueUp(parties, 1);
    for (const auto pause : IdlePauses(lab.size())) {
      std::this_thread::sleep_for(pause);
      parties.Release(holder);
      const size_t next = parties.WaitGranted();
      latency.Record(parties.granted_at() - parties.released_at());
      parties.WaitReleased(holder);
      parties.Acquire(holder);
      parties.WaitQueued(holder);
      holder = next;
    }
    parties.Release(holder);
    parties.Release(parties.WaitGranted());
    parties.WaitAllReleased();
    sample->values["p50 µs"] = latency.Micros(0.5);
    sample->values["p99 µs"] = latency.Micros(0.99);
  });
}

Sample OneShotQueue(const Lab& lab) {
  return Driven(lab, kQueueWaiters + 1, 1, [&lab](Parties& parties, Sample* sample) {
    prctl(PR_SET_TIMERSLACK, 1000);  // so that the hold lasts 1 ms, not 1.05 ms
    std::vector<double> makespans;
    for (int run = 0; run < lab.size().queue_runs; ++run) {
      QueueUp(parties, kQueueWaiters);
      parties.Release(0);
      const int64_t start = parties.released_at();
      for (size_t i = 1; i <= kQueueWaiters; ++i) {
        const size_t holder = parties.WaitGranted();
        if (holder != i) throw std::runtime_error("the queue was not served in order of arrival");
        const auto hold_end =
            std::chrono::steady_clock::time_point(std::chrono::nanoseconds(parties.granted_at())) + kQueueHold;
        std::this_thread::sleep_until(hold_end);
        parties.Release(holder);
      }
      makespans.push_back(static_cast<double>(parties.released_at() - start) * 1e-6);
      parties.WaitAllReleased();
    }
    std::sort(makespans.begin(), makespans.end());
    sample->values["makespan ms"] = makespans[makespans.size() / 2];
    sample->values["slowest ms"] = makespans.back();
  });
}

Sample QuietLocks(const Lab& lab) {
  constexpr size_t kLocks = 50;
  constexpr double kTtlSeconds = 15;
  Sample sample;
  try {
    Hoard holders(lab.broker(0), kLocks, kTtlSeconds, 1);
    holders.TakeAll();
    const double held = ScriptCallsPerSecond(lab);
    std::atomic<size_t> queued{0};
    std::atomic<bool> is_wrong{false};
    Session waiters(lab.broker(1).target(), [&](Session&, const SeenEvent& event) {
      event.kind == v1::SessionEvent::kQueued ? void(++queued) : is_wrong.store(true);
    });
    waiters.WaitOpened();
    const Pulse pulse({&waiters});
    for (size_t i = 0; i < kLocks; ++i) {
      v1::LockSpec spec = HoardSpec(0, i, kTtlSeconds);
      spec.clear_max_wait();
      waiters.Do([&](Session& session) { session.Send(EncodeAcquire(static_cast<int64_t>(i + 2), spec)); });
    }
    const int64_t end = NowNanos() + std::chrono::nanoseconds(kQueueTimeout).count();
    while (queued < kLocks && !is_wrong && NowNanos() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const double waiting = ScriptCallsPerSecond(lab);
    if (queued != kLocks || is_wrong) throw std::runtime_error("a waiter was not kept waiting");
    sample.values["calls/s held"] = held;
    sample.values["calls/s waiting"] = waiting;
    sample.values["calls of a lock in 10 s"] = (waiting - held) * 10 / kLocks;
    waiters.Goodbye();
    if (const std::string problem = waiters.Close(); !problem.empty()) throw std::runtime_error(problem);
    holders.GoodbyeAll();
  } catch (const std::runtime_error& e) {
    sample.error = e.what();
  }
  return sample;
}

Sample QuietWaiters(const Lab& lab) {
  return Driven(lab, kQueueWaiters + 1, 1, [&lab](Parties& parties, Sample* sample) {
    QueueUp(parties, kQueueWaiters);
    const double calls = lab.RedisCalls();
    const double scripts = lab.RedisCalls("evalsha");
    const double cpu = DaemonCpu(lab);
    const double seconds = lab.size().watch_seconds;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    sample->values["commands/s"] = (lab.RedisCalls() - calls) / seconds;
    sample->values["EVALSHA/s"] = (lab.RedisCalls("evalsha") - scripts) / seconds;
    sample->values["daemon CPU %"] = (DaemonCpu(lab) - cpu) / seconds * 100;
    parties.Release(0);
    for (size_t i = 1; i <= kQueueWaiters; ++i) parties.Release(parties.WaitGranted());
    parties.WaitAllReleased();
  });
}

}  // namespace distlock::bench
