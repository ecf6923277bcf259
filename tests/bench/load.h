// SPDX-License-Identifier: Apache-2.0
//
// Load: a closed loop of workers, each with slots that alternate acquire and release on a key of their own and check
// every reply. Measure() starts a load, lets it warm up, counts for a while, and stops it. Main thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bench/histogram.h"
#include "bench/lab.h"

namespace distlock::bench {

inline int64_t NowNanos() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

// One measurement of one case in one round.
struct Sample {
  std::map<std::string, double> values;  // by column
  std::string error;                     // not empty: the values are invalid
  std::string not_run;                   // not empty: why there are no values, without an error of the bench
};

// One worker's counts. Written by one thread at a time.
struct alignas(64) Tally {
  std::atomic<uint64_t> pairs{0};
  Histogram op_latency;  // only while recording
};

class Load {
 public:
  explicit Load(size_t workers) : tallies_(workers) {}
  virtual ~Load() = default;

  // Connects and begins. Throws std::runtime_error when it cannot connect.
  virtual void Start() = 0;
  // Returns when every slot has released its lock and stopped, and the connections are closed.
  virtual void Stop() = 0;

  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  void Fail(const std::string& what);  // keeps the first error, and stops the load
  std::string error() const;
  Tally& tally(size_t worker) { return tallies_[worker]; }

  uint64_t Pairs() const;
  Histogram Latencies() const;  // after Stop()
  void Record(bool on) { recording_ = on; }
  void AskToStop() { stopping_ = true; }

 private:
  std::atomic<bool> recording_{false};
  std::atomic<bool> stopping_{false};
  std::deque<Tally> tallies_;
  mutable std::mutex mu_;
  std::string error_;  // guarded by mu_
};

// The processes whose CPU time is measured.
struct Servers {
  pid_t redis;
  std::vector<pid_t> daemons;      // none for direct clients
  std::vector<pid_t> others = {};  // where the store has several servers: all behind `redis`
};

// Columns: pairs/s, op p50 µs, op p99 µs, client CPU, redis CPU (of all servers of the store) and, through a
// broker, daemon CPU (µs per pair).
Sample Measure(const Size& size, const Servers& servers, Load& load);
Sample Measure(const Lab& lab, Load& load, bool through_broker);  // the servers of the Lab
// The load that make(broker) gives, on a new broker, which ends with the measurement: so all cases begin alike.
Sample MeasureFresh(Lab& lab, const std::string& name, const std::vector<std::string>& more_flags,
                    const std::function<std::unique_ptr<Load>(const Daemon&)>& make);

// The CPU time of clients, Redis and brokers from construction to PerUnit().
class CpuMeter {
 public:
  explicit CpuMeter(Servers servers);
  // Adds the columns, in microseconds per unit of work.
  void PerUnit(double units, Sample* sample) const;

 private:
  double Redis() const;
  double Daemons() const;

  const Servers servers_;
  double client_;
  double redis_;
  double daemons_;
};

}  // namespace distlock::bench
