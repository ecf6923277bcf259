// SPDX-License-Identifier: Apache-2.0
#include "bench/linger.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/broker_load.h"
#include "bench/histogram.h"
#include "bench/session.h"

namespace distlock::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr int kPings = 200;

std::vector<std::string> Flags(Keeps keeps) {
  if (keeps == Keeps::kNothing) return {"--linger", "0"};
  return {"--linger", "50ms", "--linger-readers"};
}

// One session with at most one lock at a time. Its calls wait for their answer, and throw std::runtime_error when it is
// another than expected.
class Caller {
 public:
  explicit Caller(const Daemon& broker)
      : session_(broker.target(), [this](Session&, const SeenEvent& event) { Handle(event); }) {
    session_.WaitOpened();
  }

  // Returns how long it took, in ns.
  int64_t Take(const std::string& key) {
    acquire_ = next_id_++;
    const std::string command = EncodeAcquire(acquire_, Spec(key, true));
    return Do(command, v1::SessionEvent::kGranted);
  }
  void Give() { Do(EncodeRelease(next_id_++, acquire_), v1::SessionEvent::kReleased); }

 private:
  int64_t Do(const std::string& command, v1::SessionEvent::EventCase awaited) {
    const int64_t start = NowNanos();
    session_.Do([&command](Session& session) { session.Send(command); });
    std::unique_lock lock(mu_);
    if (!changed_.wait_for(lock, kPatience, [this] { return seen_ != v1::SessionEvent::EVENT_NOT_SET; })) {
      throw std::runtime_error("10 s without an answer");
    }
    if (seen_ != awaited) throw std::runtime_error("unexpected: " + unexpected_);
    seen_ = v1::SessionEvent::EVENT_NOT_SET;
    return seen_at_ - start;
  }

  void Handle(const SeenEvent& event) {
    if (event.kind == v1::SessionEvent::kQueued) return;
    const std::lock_guard lock(mu_);
    seen_at_ = NowNanos();
    seen_ = event.kind;
    unexpected_ = Describe(event);
    changed_.notify_all();
  }

  std::mutex mu_;
  std::condition_variable changed_;
  v1::SessionEvent::EventCase seen_ = v1::SessionEvent::EVENT_NOT_SET;  // guarded by mu_, as all below
  int64_t seen_at_ = 0;
  std::string unexpected_;

  int64_t next_id_ = 2;
  int64_t acquire_ = 0;
  Session session_;
  Pulse pulse_{{&session_}};
};

// Runs body(first, second) with a caller at each of two new brokers, which share their locks.
Sample WithTwo(Lab& lab, Keeps keeps, const std::function<void(Caller&, Caller&, Sample*)>& body) {
  Sample sample;
  try {
    const std::unique_ptr<Daemon> one = lab.FreshBroker("kept1", Flags(keeps), "kept");
    const std::unique_ptr<Daemon> two = lab.FreshBroker("kept2", Flags(keeps), "kept");
    {
      Caller first(*one);
      Caller second(*two);
      body(first, second, &sample);
    }
    lab.EndFreshBroker(*two);
    lab.EndFreshBroker(*one);
  } catch (const std::runtime_error& e) {
    sample.error = e.what();
  }
  return sample;
}

double TripMicros(const Lab& lab) {
  const RedisConnection context = lab.Connect();
  Histogram trips;
  for (int i = 0; i < kPings; ++i) {
    const int64_t start = NowNanos();
    const RedisReply reply(static_cast<redisReply*>(redisCommand(context.get(), "PING")));
    if (reply == nullptr) throw std::runtime_error("redis: PING was not answered");
    trips.Record(NowNanos() - start);
  }
  return trips.Micros(0.5);
}

}  // namespace

Sample KeptLocks(Lab& lab, Keeps keeps, size_t sessions, size_t in_flight) {
  return MeasureFresh(lab, "kept", Flags(keeps),
                      [=](const Daemon& broker) { return BrokerSessions(broker.target(), sessions, in_flight); });
}

Sample SharedLock(Lab& lab, Keeps keeps, size_t in_flight) {
  return MeasureFresh(lab, "kept", Flags(keeps),
                      [=](const Daemon& broker) { return ReadingSession(broker.target(), in_flight); });
}

Sample Recalls(Lab& lab, Keeps keeps) {
  const int count = lab.size().smoke ? 5 : 300;
  return WithTwo(lab, keeps, [&](Caller& first, Caller& second, Sample* sample) {
    Histogram latency;
    for (int i = 0; i < count; ++i) {
      const std::string key = "recalled-" + std::to_string(i);
      for (int again = 0; again < 2; ++again) {
        first.Take(key);
        first.Give();
      }
      latency.Record(second.Take(key));
      second.Give();
    }
    const double trip = TripMicros(lab);
    sample->values["p50 µs"] = latency.Micros(0.5);
    sample->values["p99 µs"] = latency.Micros(0.99);
    sample->values["trip µs"] = trip;
    sample->values["p50 in trips"] = latency.Micros(0.5) / trip;
    sample->values["p99 in trips"] = latency.Micros(0.99) / trip;
  });
}

Sample InTurn(Lab& lab, Keeps keeps) {
  return WithTwo(lab, keeps, [&](Caller& first, Caller& second, Sample* sample) {
    const double seconds = lab.size().smoke ? 0.5 : 10 * lab.size().seconds;  // pauses grow from one second on
    const double before = lab.RedisCalls("publish");
    const int64_t start = NowNanos();
    const int64_t end = start + static_cast<int64_t>(seconds * 1e9);
    Histogram latency;
    double pairs = 0;
    while (NowNanos() < end) {
      for (Caller* const caller : {&first, &second}) {
        latency.Record(caller->Take("in-turn"));
        caller->Give();
        ++pairs;
      }
    }
    const double took = static_cast<double>(NowNanos() - start) * 1e-9;
    sample->values["pairs/s"] = pairs / took;
    sample->values["p99 µs"] = latency.Micros(0.99);
    sample->values["messages/s"] = (lab.RedisCalls("publish") - before) / took;
  });
}

}  // namespace distlock::bench
