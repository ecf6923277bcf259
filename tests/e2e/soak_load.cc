// SPDX-License-Identifier: Apache-2.0
//
// distlock_soak_load: a program that uses locks through the production library, and records its requests, the answers
// and its belief. Its workers request locks, hold them, write to the fenced store, release them, or cancel. After
// SIGTERM it makes no new requests, and ends when all requests are answered and all locks released. With
// --serve-register it is the fenced store instead.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "distlock/client.h"
#include "soak_log.h"
#include "soak_register.h"

namespace distlock::soak {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook(20);          // how often a holder records its deadline
constexpr milliseconds kLate(300);         // so long a try takes only when something is wrong
constexpr int64_t kStalled = 250'000'000;  // a thread that does not run for so long counts as paused

struct Options {
  std::string server;
  std::string name;
  std::string history;
  std::string register_path;
  bool serve_register = false;
  unsigned seed = 1;
  int workers = 6;
  int locks = 12;
  int slow_locks = 4;    // the first locks: held for long, with many waiters
  int slow_workers = 2;  // workers that use only those
  int try_locks = 12;    // locks besides: often free, and taken by tries alone
  int try_workers = 2;   // workers besides, that use only those, and hold for long what they were granted late
  int pause_ms = 100;    // mean pause between a worker's requests
  int longest_hold_ms = 4000;
  std::vector<int> ttls_ms{3000};
  int longest_delay_ms = 500;
};

std::atomic<bool> stopping{false};

// Reasons that the library itself makes have no name in a history.
std::string ReasonName(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kClientClosed:
      return "CANCELLED";
    case RefusalReason::kUnreachable:
    case RefusalReason::kWouldDeadlock:
    case RefusalReason::kUnspecified:
      return "STORE_UNAVAILABLE";
    default:
      return std::string(Name(reason));
  }
}

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  int Upto(int most) { return std::uniform_int_distribution<int>(0, most)(engine_); }
  bool Chance(double part) { return std::uniform_real_distribution<double>(0, 1)(engine_) < part; }
  milliseconds About(int mean_ms) {
    return milliseconds(static_cast<int>(std::exponential_distribution<double>(1.0 / mean_ms)(engine_)));
  }

 private:
  std::mt19937 engine_;
};

// One request, to its end. Shared with the library's callbacks, which may come late.
class Wish {
 public:
  Wish(SoakLog& log, std::string lease) : lease_(std::move(lease)), log_(log) {}

  const std::string& lease() const { return lease_; }

  void Asked(const std::string& lock, const LockOptions& options, std::optional<milliseconds> max_wait) {
    const int64_t wait_ns = max_wait ? std::chrono::nanoseconds(*max_wait).count() : -1;
    log_.Write("asked", {{"lease", lease_},
                         {"lock", lock},
                         {"max_wait", wait_ns},
                         {"ttl", options.ttl->count()},
                         {"lock_delay", options.lock_delay.count()},
                         {"max_hold", options.max_hold.count()},
                         {"risky", options.on_disconnect == OnDisconnect::kRelease},
                         {"freed_by_promise", options.on_disconnect != OnDisconnect::kExpire}});
  }

  // On a thread of the library.
  void Answered(Result<Guard> result) {
    const std::lock_guard lock(mutex_);
    if (result.ok()) {
      log_.Write("granted", {{"lease", lease_}, {"token", result->token()}});
      guard_ = std::move(result).value();
      NoteBelief();
      watch_.emplace(guard_->stop_token(), Watch{this});
    } else {
      log_.Write("refused", {{"lease", lease_}, {"reason", ReasonName(result.refusal().reason)}});
    }
    answered_ = true;
    changed_.notify_all();
  }

  bool WaitAnswered(milliseconds longest) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest, [this] { return answered_; });
  }
  void GaveUp() { log_.Write("gave_up", {{"lease", lease_}}); }

  // Whether the program may use the lock at this moment.
  bool Believes() {
    const std::lock_guard lock(mutex_);
    if (!guard_) return false;
    NoteBelief();
    const LockState state = guard_->state();
    return state == LockState::kHeld || state == LockState::kAtRisk;
  }
  int64_t token() const { return guard_->token(); }
  bool held() const { return guard_.has_value(); }

  // Releases the lock, and waits for the answer or not.
  void GiveBack(bool wait) {
    if (Believes()) NoteEnd(EndCause::kReleased);
    // The stop callback runs in here, and records an earlier end, if any.
    if (wait) {
      const ReleaseOutcome outcome = guard_->Release();
      if (outcome != ReleaseOutcome::kUnknown) {
        log_.Write("released", {{"lease", lease_},
                                {"outcome", outcome == ReleaseOutcome::kReleased ? "RELEASED" : "ALREADY_GONE"}});
      }
    }
    NoteEnd(guard_->end_cause());
    watch_.reset();
    guard_.reset();
  }

 private:
  struct Watch {
    Wish* wish;
    void operator()() const { wish->NoteEnd(EndCause::kNotEnded); }
  };

  void NoteBelief() {
    const std::lock_guard lock(notes_);
    const int64_t until = guard_->valid_until();
    if (until == noted_until_ || ended_) return;
    noted_until_ = until;
    log_.Write("believes", {{"lease", lease_}, {"until", until}});
  }

  // Called once. kNotEnded: the guard knows the cause.
  void NoteEnd(EndCause cause) {
    const std::lock_guard lock(notes_);
    if (cause == EndCause::kNotEnded) cause = guard_->end_cause();
    if (cause == EndCause::kNotEnded || std::exchange(ended_, true)) return;
    nlohmann::json more = {{"lease", lease_}};
    switch (cause) {
      case EndCause::kReleased:
      case EndCause::kClientClosed:
        more["why"] = "releasing";
        break;
      case EndCause::kLapsed:
        more["why"] = "deadline";
        break;
      case EndCause::kDisconnected:
        more["why"] = "stream_broke";
        break;
      default:
        more["why"] = "lost";
        more["lost"] = Name(cause);
        break;
    }
    log_.Write("ended", std::move(more));
  }

  const std::string lease_;
  SoakLog& log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool answered_ = false;
  std::optional<Guard> guard_;
  std::optional<std::stop_callback<Watch>> watch_;

  // Records of belief and of its end must be written in the order of their times.
  std::mutex notes_;
  int64_t noted_until_ = 0;
  bool ended_ = false;
};

class Worker {
 public:
  Worker(const Options& options, Client& client, SoakLog& log, RegisterClient& data, int number)
      : options_(options),
        client_(client),
        log_(log),
        data_(data),
        number_(number),
        dice_(options.seed * 1000 + static_cast<unsigned>(number)) {}

  void Run() {
    while (!stopping.load()) {
      std::this_thread::sleep_for(dice_.About(options_.pause_ms));
      OneWish();
    }
  }

 private:
  void OneWish() {
    // Some workers use only the slow locks; otherwise all workers would in the end wait for these.
    const bool slow = number_ < options_.slow_workers;
    const bool tries = number_ >= options_.workers;
    const int number = slow    ? dice_.Upto(options_.slow_locks - 1)
                       : tries ? options_.locks + dice_.Upto(options_.try_locks - 1)
                               : options_.slow_locks + dice_.Upto(options_.locks - options_.slow_locks - 1);
    const std::string lock = "lock-" + std::to_string(number);
    LockOptions terms = Terms();
    std::optional<milliseconds> max_wait;
    if (tries || dice_.Chance(0.2)) {
      max_wait = milliseconds(0);
    } else if (dice_.Chance(0.2)) {
      max_wait = milliseconds(1 + dice_.Upto(3000));
    }
    auto wish =
        std::make_shared<Wish>(log_, options_.name + ":" + std::to_string(number_) + "." + std::to_string(++wishes_));
    Mutex mutex = client_.MakeMutex(lock, terms);
    wish->Asked(lock, terms, max_wait);
    const auto asked = std::chrono::steady_clock::now();
    const auto tell = [wish](Result<Guard> result) { wish->Answered(std::move(result)); };
    PendingLock pending = !max_wait                      ? mutex.LockAsync(tell)
                          : *max_wait == milliseconds(0) ? mutex.TryLockAsync(tell)
                                                         : mutex.TryLockForAsync(*max_wait, tell);
    if (dice_.Chance(0.1) && !wish->WaitAnswered(milliseconds(dice_.Upto(dice_.Chance(0.5) ? 5 : 1000)))) {
      wish->GaveUp();
      pending.Cancel();
    }
    while (!wish->WaitAnswered(milliseconds(1000))) continue;
    if (!wish->held()) return;
    const bool late = std::chrono::steady_clock::now() - asked > kLate;
    Hold(*wish, lock, tries ? late || dice_.Chance(0.05) : slow && dice_.Chance(0.3));
  }

  LockOptions Terms() {
    LockOptions terms;
    terms.ttl =
        milliseconds(options_.ttls_ms[static_cast<size_t>(dice_.Upto(static_cast<int>(options_.ttls_ms.size()) - 1))]);
    if (dice_.Chance(0.1)) terms.lock_delay = milliseconds(1 + dice_.Upto(options_.longest_delay_ms - 1));
    if (dice_.Chance(0.05)) terms.max_hold = milliseconds(500 + dice_.Upto(2000));
    terms.on_disconnect = dice_.Chance(0.8)   ? OnDisconnect::kSafe
                          : dice_.Chance(0.5) ? OnDisconnect::kRelease
                                              : OnDisconnect::kExpire;
    terms.owner = options_.name;
    return terms;
  }

  void Hold(Wish& wish, const std::string& lock, bool is_long) {
    const milliseconds hold = is_long ? milliseconds(dice_.Upto(options_.longest_hold_ms)) : dice_.About(3);
    const auto end = std::chrono::steady_clock::now() + hold;
    Write(wish, lock);
    while (std::chrono::steady_clock::now() < end && wish.Believes()) {
      std::this_thread::sleep_until(std::min(end, std::chrono::steady_clock::now() + kLook));
    }
    Write(wish, lock);
    const int64_t token = wish.token();
    wish.GiveBack(dice_.Chance(0.9));
    if (!dice_.Chance(0.02)) return;
    // Acts like a program that did not notice the end of the lock; the fenced store must reject its write.
    std::this_thread::sleep_for(dice_.About(50));
    data_.Write(wish.lease(), lock, token);
  }

  void Write(Wish& wish, const std::string& lock) {
    if (wish.Believes()) data_.Write(wish.lease(), lock, wish.token());
  }

  const Options& options_;
  Client& client_;
  SoakLog& log_;
  RegisterClient& data_;
  const int number_;
  Dice dice_;
  int wishes_ = 0;
};

// Records it as a fault when the machine is too busy to run this process.
void WatchForStalls(SoakLog& log, const std::atomic<bool>& done) {
  int64_t last = BootNow();
  while (!done.load()) {
    std::this_thread::sleep_for(kLook);
    const int64_t now = BootNow();
    if (now - last > kStalled)
      log.Write(last, "fault", {{"fault", "client_paused"}, {"lasts", now - last}, {"stall", true}});
    last = now;
  }
}

int RunLoad(const Options& options) {
  std::signal(SIGTERM, [](int) { stopping.store(true); });
  SoakLog log(options.history, options.name);
  RegisterClient data(options.register_path, options.name);
  std::atomic<bool> done{false};
  std::thread watch([&] { WatchForStalls(log, done); });
  {
    ClientOptions how;
    how.address = options.server;
    how.client_label = options.name;
    how.unreachable_timeout = Duration::max();
    how.reconnect_max = milliseconds(500);
    how.connect_timeout = milliseconds(1000);
    Client client(how);
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<Worker>> workers;
    for (int i = 0; i < options.workers + options.try_workers; ++i) {
      workers.push_back(std::make_unique<Worker>(options, client, log, data, i));
      threads.emplace_back([worker = workers.back().get()] { worker->Run(); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  done.store(true);
  watch.join();
  return 0;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Uses locks and writes down what it believed; the clients of a soak.");
  app.add_option("--history", options.history, "file for the records")->required();
  app.add_option("--register", options.register_path, "unix socket of the fenced store")->required();
  app.add_flag("--serve-register", options.serve_register, "be the fenced store");
  app.add_option("--server", options.server, "the broker");
  app.add_option("--name", options.name, "of this client, without spaces");
  app.add_option("--seed", options.seed, "of its choices");
  app.add_option("--workers", options.workers, "threads with one wish at a time");
  app.add_option("--locks", options.locks, "how many locks there are");
  app.add_option("--slow-locks", options.slow_locks, "so many of them are held long");
  app.add_option("--slow-workers", options.slow_workers, "so many threads use those, the others the rest");
  app.add_option("--pause", options.pause_ms, "mean time between a worker's wishes, ms");
  app.add_option("--longest-hold", options.longest_hold_ms, "ms");
  app.add_option("--ttl", options.ttls_ms, "one or more, ms");
  app.add_option("--longest-delay", options.longest_delay_ms, "of a lock_delay, ms");
  CLI11_PARSE(app, argc, argv);
  return options.serve_register ? RunRegister(options.register_path, options.history) : RunLoad(options);
}

}  // namespace
}  // namespace distlock::soak

int main(int argc, char** argv) { return distlock::soak::Main(argc, argv); }
