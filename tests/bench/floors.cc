// SPDX-License-Identifier: Apache-2.0
#include "bench/floors.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/direct.h"
#include "bench/handoff.h"
#include "bench/relay.h"
#include "bench/renewals.h"
#include "bench/session.h"
#include "bench/slow_log.h"

namespace distlock::bench {
namespace {

using std::chrono::milliseconds;

// Renews as the broker does: keys that are due within a tick go together, with at most so many keys a call and so many
// calls in flight.
constexpr milliseconds kTick{1000};
constexpr size_t kKeysPerCall = 100;
constexpr size_t kCallsInFlight = 2;
constexpr const char* kLeastScript =
    "local values, renewed = redis.call('MGET', unpack(KEYS)), 0 "
    "for i, key in ipairs(KEYS) do "
    "if values[i] and string.find(values[i], ARGV[i + 1], 1, true) == 1 then renewed = renewed + redis.call('PEXPIRE', "
    "key, ARGV[1]) end "
    "end return renewed";
constexpr const char* kKeyPattern = "dl:{default/least-*}:h";

Sample Percentiles(const Histogram& latency) {
  return {.values = {{"p50 µs", latency.Micros(0.5)}, {"p99 µs", latency.Micros(0.99)}}, .error = {}, .not_run = {}};
}

template <typename RoundTrip>
Sample AfterPauses(const Lab& lab, RoundTrip round_trip) {
  Histogram latency;
  for (const auto pause : IdlePauses(lab.size())) {
    std::this_thread::sleep_for(pause);
    const int64_t start = NowNanos();
    round_trip();
    latency.Record(NowNanos() - start);
  }
  return Percentiles(latency);
}

// A stream to a relay, driven by the thread that waits for it.
class RelayedStream {
 public:
  explicit RelayedStream(const std::string& target)
      : stub_(grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), OwnConnection())) {
    context_.set_wait_for_ready(true);
    stream_ = stub_.PrepareCall(&context_, "/bench.Relay/Relay", &queue_);
    stream_->StartCall(this);
    Await(1);
  }

  ~RelayedStream() {
    context_.TryCancel();
    grpc::Status status;
    stream_->Finish(&status, this);
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    queue_.Shutdown();
    while (queue_.Next(&tag, &ok)) {
    }
  }

  std::string Ask(const std::string& command) {
    const grpc::Slice out(command);
    stream_->Write(grpc::ByteBuffer(&out, 1), this);
    grpc::ByteBuffer in;
    stream_->Read(&in, this);
    Await(2);
    grpc::Slice slice;
    if (!in.DumpToSingleSlice(&slice).ok()) throw std::runtime_error("the relay's answer cannot be read");
    return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
  }

 private:
  void Await(int operations) {
    for (void* tag = nullptr; operations > 0; --operations) {
      bool ok = false;
      if (!queue_.Next(&tag, &ok) || !ok) throw std::runtime_error("the relay's stream broke");
    }
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

// Takes and gives back a key by turns, through a relay of its own.
class RelayedSlot {
 public:
  RelayedSlot(const Lab& lab, const std::string& name)
      : relay_(lab), slot_(WithScripts(lab, name)), stream_(std::make_unique<RelayedStream>(relay_.target())) {}

  void Ask() {
    const std::string answer = stream_->Ask(holding_ ? slot_.release() : slot_.acquire());
    if (answer != (holding_ ? "1" : "OK")) throw std::runtime_error("the relay answers " + answer);
    holding_ = !holding_;
  }

 private:
  // A slot names the scripts as they were loaded before.
  static DirectSlot WithScripts(const Lab& lab, const std::string& name) {
    DirectSlot::LoadScripts(lab.Connect().get());
    return {DirectKind::kSetNx, name};
  }

  const Relay relay_;
  const DirectSlot slot_;
  const std::unique_ptr<RelayedStream> stream_;
  bool holding_ = false;
};

template <typename Measure>
Sample Measured(Measure measure) {
  try {
    return measure();
  } catch (const std::runtime_error& e) {
    return {.values = {}, .error = e.what(), .not_run = {}};
  }
}

RedisReply Answer(redisContext* connection) {
  void* reply = nullptr;
  redisGetReply(connection, &reply);
  RedisReply answer(static_cast<redisReply*>(reply));
  if (answer == nullptr || answer->type == REDIS_REPLY_ERROR) {
    throw std::runtime_error(std::string("redis: ") + (answer == nullptr ? connection->errstr : answer->str));
  }
  return answer;
}

// All keys of LeastRenewals, renewed in turn.
class LeastKeys {
 public:
  LeastKeys(const Lab& lab, size_t count, double ttl_seconds)
      : connection_(lab.Connect(Transport::kUnix)), ttl_ms_(std::to_string(static_cast<int64_t>(ttl_seconds * 1000))) {
    for (size_t i = 0; i < count; ++i) {
      keys_.push_back("dl:{default/least-" + std::to_string(i) + "}:h");
      std::string owner = std::to_string(i);
      owner.insert(0, 32 - owner.size(), '0');
      holders_.push_back("1;" + owner + ";1700000000000000;");  // as long as in a holder's value
    }
    for (size_t i = 0; i < count; i += kKeysPerCall) {
      const size_t end = std::min(count, i + kKeysPerCall);
      for (size_t k = i; k < end; ++k) {
        redisAppendCommand(connection_.get(), "SET %s %s1700000000000000;%s;0;%s PX %s", keys_[k].c_str(),
                           holders_[k].c_str(), ttl_ms_.c_str(), "....................", ttl_ms_.c_str());
      }
      for (size_t k = i; k < end; ++k) Answer(connection_.get());
    }
    redisAppendCommand(connection_.get(), "SCRIPT LOAD %s", kLeastScript);
    sha_ = Answer(connection_.get())->str;
  }

  const std::string& sha() const { return sha_; }

  // The next `count` of them.
  void Renew(size_t count) {
    std::deque<size_t> calls;
    while (count > 0) {
      if (calls.size() == kCallsInFlight) Check(calls);
      const size_t now = std::min({count, kKeysPerCall, keys_.size() - next_});
      std::vector<std::string> words{"EVALSHA", sha_, std::to_string(now)};
      words.insert(words.end(), keys_.begin() + At(next_), keys_.begin() + At(next_ + now));
      words.push_back(ttl_ms_);
      words.insert(words.end(), holders_.begin() + At(next_), holders_.begin() + At(next_ + now));
      Append(words);
      calls.push_back(now);
      next_ = (next_ + now) % keys_.size();
      count -= now;
    }
    while (!calls.empty()) Check(calls);
  }

 private:
  // The answer to the first of `calls`, which say how many keys each has.
  void Check(std::deque<size_t>& calls) {
    if (Answer(connection_.get())->integer != static_cast<int64_t>(calls.front()))
      throw std::runtime_error("a key was not renewed");
    calls.pop_front();
  }

  static ptrdiff_t At(size_t i) { return static_cast<ptrdiff_t>(i); }

  void Append(const std::vector<std::string>& words) {
    std::vector<const char*> argv;
    std::vector<size_t> lengths;
    for (const std::string& word : words) {
      argv.push_back(word.data());
      lengths.push_back(word.size());
    }
    redisAppendCommandArgv(connection_.get(), static_cast<int>(words.size()), argv.data(), lengths.data());
  }

  const RedisConnection connection_;
  const std::string ttl_ms_;
  std::vector<std::string> keys_;
  std::vector<std::string> holders_;  // how each key's value begins
  std::string sha_;
  size_t next_ = 0;
};

// The part of a core that Redis uses while `work` runs every tick.
template <typename Work>
double RedisCpu(const Lab& lab, Work work) {
  const double before = CpuSeconds(lab.redis_pid());
  const int64_t start = NowNanos();
  auto tick = std::chrono::steady_clock::now();
  for (const auto end = tick + std::chrono::duration<double>(lab.size().renewal_watch_seconds / 3); tick < end;) {
    work();
    tick += kTick;
    std::this_thread::sleep_until(tick);
  }
  return (CpuSeconds(lab.redis_pid()) - before) / (static_cast<double>(NowNanos() - start) * 1e-9);
}

}  // namespace

Sample IdleDirect(const Lab& lab) {
  return Measured([&] {
    const RedisConnection connection = lab.Connect();
    DirectSlot::LoadScripts(connection.get());
    DirectSlot slot(DirectKind::kSetNx, "idle-direct");
    bool holding = false;
    return AfterPauses(lab, [&] {
      const std::string& command = holding ? slot.release() : slot.acquire();
      redisAppendFormattedCommand(connection.get(), command.data(), command.size());
      const RedisReply reply = Answer(connection.get());
      const std::string problem = holding ? slot.CheckReleased(reply.get()) : slot.CheckAcquired(reply.get());
      if (!problem.empty()) throw std::runtime_error(problem);
      holding = !holding;
    });
  });
}

Sample IdleRelayed(const Lab& lab) {
  return Measured([&] {
    RelayedSlot slot(lab, "idle-relayed");
    return AfterPauses(lab, [&] { slot.Ask(); });
  });
}

Sample RelayedInTurn(const Lab& lab) {
  return Measured([&] {
    RelayedSlot slot(lab, "relayed-in-turn");
    const auto seconds = [](double length) { return static_cast<int64_t>(length * 1e9); };
    const int64_t begin = NowNanos() + seconds(lab.size().warm_seconds);
    const int64_t end = begin + seconds(lab.size().seconds);
    Histogram latency;
    for (int64_t start = NowNanos(); start < end; start = NowNanos()) {
      slot.Ask();
      if (start >= begin) latency.Record(NowNanos() - start);
    }
    return Percentiles(latency);
  });
}

Sample RelayedQueue(const Lab& lab) {
  return Measured([&] {
    prctl(PR_SET_TIMERSLACK, 1000);  // as in OneShotQueue
    RelayedSlot slot(lab, "relayed-queue");
    std::vector<double> makespans;
    for (int run = 0; run < lab.size().queue_runs; ++run) {
      std::this_thread::sleep_for(milliseconds(100));  // the broker's waiters have waited, too
      const int64_t start = NowNanos();
      for (size_t i = 0; i < kQueueWaiters; ++i) {
        slot.Ask();
        std::this_thread::sleep_for(kQueueHold);
      }
      makespans.push_back(static_cast<double>(NowNanos() - start) * 1e-6);
    }
    std::sort(makespans.begin(), makespans.end());
    return Sample{.values = {{"makespan ms", makespans[makespans.size() / 2]}, {"slowest ms", makespans.back()}},
                  .error = {},
                  .not_run = {}};
  });
}

Sample LeastRenewals(const Lab& lab) {
  return Measured([&] {
    const Size& size = lab.size();
    const auto leases = static_cast<size_t>(size.leases);
    const double idle = RedisCpu(lab, [] {});
    LeastKeys keys(lab, leases, size.renewal_ttl_seconds);
    const double each_tick =
        size.leases / (size.renewal_ttl_seconds / 3) * std::chrono::duration<double>(kTick).count();
    keys.Renew(leases);
    const auto renew = [&] { keys.Renew(std::max(static_cast<size_t>(each_tick), size_t{1})); };
    const double busy = RedisCpu(lab, renew);
    const SlowLog log(lab);
    RedisCpu(lab, renew);
    const auto calls = log.CallsOf(keys.sha());
    lab.RedisKeys(kKeyPattern, /*remove=*/true);
    return Sample{.values = {{"redis CPU %", PercentAtGoal(size, busy - idle)},
                             {"call ms", calls.median_ms},
                             {"longest ms", calls.longest_ms}},
                  .error = {},
                  .not_run = {}};
  });
}

}  // namespace distlock::bench
