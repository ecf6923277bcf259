// SPDX-License-Identifier: Apache-2.0
//
// Load: a closed loop of workers that take and give back locks, and check every reply. Measure() starts a load, lets it
// warm up, counts for a while, and stops it. The works of distlock_bench are declared here. Main thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace distlock::bench {

inline constexpr auto kPatience = std::chrono::seconds(10);

inline int64_t NowNanos() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

// Waits until done() or kPatience has passed; returns done(). Not while something is measured.
template <typename Done>
bool Eventually(Done done, std::chrono::seconds patience = kPatience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!done() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return done();
}

// Keeps the first problem. Any thread.
class Problem {
 public:
  void Fail(const std::string& what);
  void Check() const;  // throws std::runtime_error when there is one
  bool found() const { return found_; }

 private:
  std::atomic<bool> found_{false};
  mutable std::mutex mu_;
  std::string what_;  // guarded by mu_
};

// One worker's counts. Written by one thread at a time.
struct alignas(64) Tally {
  std::atomic<uint64_t> pairs{0};
  std::vector<int64_t> took;  // ns of each operation; only while recording
};

class Load : public Problem {
 public:
  explicit Load(size_t workers) : tallies_(workers) {}
  virtual ~Load() = default;

  // Connects and begins. Throws std::runtime_error when it cannot connect.
  virtual void Start() = 0;
  // Returns when every slot has given its lock back and the connections are closed.
  virtual void Stop() = 0;

  bool stopping() const { return stopping_.load(std::memory_order_relaxed) || found(); }
  // `sent`: when the operation began that ends now.
  void Record(size_t worker, int64_t sent) {
    if (recording_.load(std::memory_order_relaxed)) tallies_[worker].took.push_back(NowNanos() - sent);
  }
  void CountPair(size_t worker) { tallies_[worker].pairs.fetch_add(1, std::memory_order_relaxed); }

  uint64_t Pairs() const;
  double Micros(double part);  // a percentile; after Stop()
  // For Stop(): until busy() slots are none.
  void AwaitRest(const std::atomic<size_t>& busy);
  void SetRecording(bool on) { recording_ = on; }
  void AskToStop() { stopping_ = true; }

 private:
  std::atomic<bool> recording_{false};
  std::atomic<bool> stopping_{false};
  std::deque<Tally> tallies_;
};

// {"pairs/s", "op p50 µs", "op p99 µs"}. Throws std::runtime_error when anything was wrong.
nlohmann::json Measure(Load& load, double warm_seconds, double seconds);

// Without a broker: hiredis on loopback TCP. `clients` threads, each with a connection and one command in flight: SET
// NX PX, and compare-and-delete by a script.
std::unique_ptr<Load> DirectClients(int redis_port, size_t clients);
// One connection with `in_flight` slots of the broker's own scripts.
std::unique_ptr<Load> PipelinedClient(int redis_port, size_t in_flight);
// DirectClients' work, as messages of streams, on a connection each, to a relay at `target`.
std::unique_ptr<Load> RelayClients(const std::string& target, int redis_port, size_t clients);
// `sessions` connections to a broker, with a Session stream and `in_flight` slots each.
std::unique_ptr<Load> BrokerSessions(const std::string& target, size_t sessions, size_t in_flight);
// Parties of one lock, spread over the brokers, each with a connection of its own: they give it back at once and queue
// again. A pair is a grant; its latency is from just before the release until the next party has read its grant.
std::unique_ptr<Load> HotHandoff(const std::vector<std::string>& targets, size_t parties);

// Opens sessions, and takes and keeps `leases`, a multiple of their number. Prints "open" and waits for a line of
// stdin, then prints "held" and waits for another one. Throws std::runtime_error when anything was wrong.
void Hoard(const std::string& target, size_t sessions, size_t leases, double ttl_seconds);

// The least that a broker must do: each message of a stream is a Redis command, which one connection carries for all,
// and its answer goes back as a message. It has no locks, leases, fencing tokens, checks or metrics. Its time is the
// cost of gRPC, of the machine's wake-ups and of Redis' socket; the rest of distlockd's time is distlockd's own. Serves
// at `listen`, a gRPC address, until it is killed. Returns the exit code.
int RunRelay(const std::string& listen, const std::string& redis_socket);

// Stands between Redis and all its clients and holds back every byte, in each direction, for half of a round trip: a
// store at a distance. Without a limit of bandwidth. Serves on loopback TCP and a unix socket until it is killed.
void RunDelayProxy(int port, const std::string& socket, const std::string& redis_socket,
                   std::chrono::microseconds round_trip);

}  // namespace distlock::bench
