// SPDX-License-Identifier: Apache-2.0
//
// distlock_cpp_driver: the C++ library, as client/conformance drives it. Commands come as JSON lines on stdin; what the
// library says goes out as JSON lines on stdout. client/conformance/README.md lists both.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "distlock/client.h"

namespace distlock::conformance {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

int64_t BootNow() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::mutex printing;

// One line on stdout, whole and at once. Any thread.
void Print(json line) {
  const std::lock_guard lock(printing);
  line.emplace("at", BootNow());
  const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data() + sent, text.size() - sent);
    if (n <= 0) ::_exit(3);  // nobody reads any more
    sent += static_cast<size_t>(n);
  }
}

// One lock of the case, from its request on.
class Entry {
 public:
  explicit Entry(std::string name) : name_(std::move(name)) {}

  // Callbacks of the library.

  void Answered(Result<Guard> result) {
    if (!result.ok()) return Refused(result.refusal());
    guard_ = std::move(result).value();
    granted_.store(true, std::memory_order_release);
    Print({{"event", "granted"},
           {"lock", name_},
           {"token", guard_->token()},
           {"hold_count", guard_->hold_count()},
           {"until", guard_->valid_until()}});
    watch_.emplace(guard_->stop_token(), Watch{this});
  }

  void Refused(const Refusal& refusal) const {
    json line = {{"event", "refused"},
                 {"lock", name_},
                 {"reason", Name(refusal.reason)},
                 {"message", refusal.message},
                 {"holders", json::array()}};
    if (refusal.retry_after)
      line["retry_after_ms"] = std::chrono::duration<double, std::milli>(*refusal.retry_after).count();
    for (const Holder& holder : refusal.holders) line["holders"].push_back(holder.owner);
    Print(line);
  }

  void Queued(const QueuedInfo& info) const {
    Print({{"event", "queued"}, {"lock", name_}, {"position", info.position}});
  }

  // Commands.

  void SetPending(PendingLock pending) { pending_ = std::move(pending); }
  void Cancel() { pending_.Cancel(); }

  void Release() {
    releasing_ = true;
    const int64_t since = BootNow();
    Guarded().ReleaseAsync([name = name_, since](ReleaseOutcome outcome) {
      Print({{"event", "released"}, {"lock", name}, {"outcome", Name(outcome)}, {"since", since}});
    });
  }

  void Downgrade() {
    Guarded().DowngradeAsync([name = name_](const std::optional<Refusal>& refusal) {
      json line = {{"event", refusal ? "not_downgraded" : "downgraded"}, {"lock", name}};
      if (refusal) line["reason"] = Name(refusal->reason);
      Print(line);
    });
  }

  json State() {
    const int64_t at = BootNow();  // before the question: so long at least the answer is true
    const Guard& guard = Guarded();
    const LockState state = guard.state();
    return {{"event", "state"},
            {"lock", name_},
            {"at", at},
            {"state", Name(state)},
            {"cause", Name(guard.end_cause())},
            {"token", guard.token()},
            {"until", guard.valid_until()}};
  }

 private:
  struct Watch {
    Entry* entry;
    void operator()() const { entry->Ended(); }
  };

  Guard& Guarded() {
    if (!granted_.load(std::memory_order_acquire)) throw std::invalid_argument(name_ + " was not granted");
    return *guard_;
  }

  // By the thread that ends the lock, perhaps inside of Answered.
  void Ended() {
    if (releasing_ && guard_->end_cause() == EndCause::kReleased) return;
    Print(
        {{"event", "lost"}, {"lock", name_}, {"cause", Name(guard_->end_cause())}, {"message", guard_->end_message()}});
  }

  const std::string name_;
  PendingLock pending_;
  std::optional<Guard>
      guard_;  // stays as it is once granted_ is true; no mutex, which a child of fork might find locked
  std::atomic<bool> granted_ = false;
  std::optional<std::stop_callback<Watch>> watch_;
  std::atomic<bool> releasing_ = false;
};

class Driver {
 public:
  // False: the client was closed, and nothing more is to come.
  void Obey(const json& line) {
    const auto what = line.at("do").get<std::string>();
    if (what == "connect") return Connect(line);
    if (what == "close") {
      client_.reset();
      return Print({{"event", "closed"}});
    }
    if (what == "acquire") return Acquire(line);
    if (what == "acquire_all") return AcquireAll(line);
    if (what == "fork") return Fork();
    Entry& entry = *Find(line);
    if (what == "cancel") return entry.Cancel();
    if (what == "release") return entry.Release();
    if (what == "downgrade") return entry.Downgrade();
    if (what == "state") return Print(entry.State());
    throw std::invalid_argument("cannot do " + what);
  }

 private:
  void Connect(const json& line) {
    ClientOptions options;
    options.address = line.at("address").get<std::string>();
    options.client_label = "conformance";
    if (line.contains("unreachable_ms"))
      options.unreachable_timeout = milliseconds(line["unreachable_ms"].get<int64_t>());
    options.on_draining = [](Duration left) {
      Print({{"event", "draining"}, {"time_left_ms", std::chrono::duration<double, std::milli>(left).count()}});
    };
    client_ = std::make_unique<Client>(std::move(options));
  }

  static LockOptions OptionsOf(const json& line) {
    static const std::map<std::string, OnDisconnect> kEnds = {
        {"SAFE", OnDisconnect::kSafe}, {"RELEASE", OnDisconnect::kRelease}, {"EXPIRE", OnDisconnect::kExpire}};
    LockOptions options;
    if (line.contains("ttl_ms")) options.ttl = milliseconds(line["ttl_ms"].get<int64_t>());
    options.max_hold = milliseconds(line.value("max_hold_ms", int64_t{0}));
    options.lock_delay = milliseconds(line.value("lock_delay_ms", int64_t{0}));
    options.min_hold = milliseconds(line.value("min_hold_ms", int64_t{0}));
    options.on_disconnect = kEnds.at(line.value("on_disconnect", "SAFE"));
    options.owner = line.value("owner", "");
    options.reentrant = line.value("reentrant", false);
    options.resume = line.value("resume", false);
    return options;
  }

  static std::optional<Duration> WaitOf(const json& line) {
    if (!line.contains("wait_ms")) return std::nullopt;
    return milliseconds(line["wait_ms"].get<int64_t>());
  }

  std::shared_ptr<Entry> Add(const std::string& name) {
    auto& entry = entries_[name];
    if (entry != nullptr) throw std::invalid_argument(name + " is in use");
    entry = std::make_shared<Entry>(name);
    return entry;
  }

  std::shared_ptr<Entry> Find(const json& line) {
    const auto found = entries_.find(line.at("lock").get<std::string>());
    if (found == entries_.end()) throw std::invalid_argument("there is no " + line.at("lock").dump());
    return found->second;
  }

  void Acquire(const json& line) {
    const auto entry = Add(line.at("lock").get<std::string>());
    const auto key = line.at("key").get<std::string>();
    const std::string mode = line.value("mode", "EXCLUSIVE");
    LockOptions options = OptionsOf(line);
    options.max_wait = WaitOf(line);
    options.on_queued = [entry](const QueuedInfo& info) { entry->Queued(info); };
    const auto answer = [entry](Result<Guard> result) { entry->Answered(std::move(result)); };
    Client& client = ClientHere();
    if (mode == "SHARED") {
      entry->SetPending(client.MakeRwLock(key, options).ReadLockAsync(answer));
    } else if (mode == "PERMIT") {
      Semaphore semaphore = client.MakeSemaphore(key, line.at("limit").get<int32_t>(), options);
      entry->SetPending(semaphore.AcquireAsync(answer, line.value("permits", 1)));
    } else {
      entry->SetPending(client.MakeMutex(key, options).LockAsync(answer));
    }
  }

  // Lock i of the request is called NAME.i.
  void AcquireAll(const json& line) {
    const auto keys = line.at("keys").get<std::vector<std::string>>();
    std::vector<std::shared_ptr<Entry>> parts;
    for (size_t i = 0; i < keys.size(); ++i) {
      parts.push_back(Add(line.at("lock").get<std::string>() + "." + std::to_string(i)));
    }
    LockSet set(keys, OptionsOf(line));
    set.MaxWait(WaitOf(line));
    const auto answer = [this, parts](Result<MultiGuard> result) {
      if (!result.ok()) {
        for (const auto& part : parts) part->Refused(result.refusal());
        return;
      }
      MultiGuard& all = together_.emplace_back(std::move(result).value());
      for (size_t i = 0; i < parts.size(); ++i) parts[i]->Answered(std::move(all.part(i)));
    };
    const PendingLock pending = ClientHere().MakeMultiLock(set).LockAsync(answer);
    for (const auto& part : parts) part->SetPending(pending);
  }

  // A child that asks whether it holds the parent's locks, and tries to take one more.
  void Fork() {
    const std::lock_guard lock(printing);  // so that the child does not inherit it locked by another thread
    const pid_t child = ::fork();
    if (child != 0) {
      int status = 0;
      ::waitpid(child, &status, 0);
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    json states = json::object();
    for (const auto& [name, entry] : entries_) states[name] = entry->State().at("state");
    Result<Guard> taken = ClientHere().MakeMutex("by the child").TryLock();
    const json line = {{"event", "child"},
                       {"at", BootNow()},
                       {"states", states},
                       {"taken", taken.ok() ? "GRANTED" : Name(taken.refusal().reason)}};
    const std::string text = line.dump() + "\n";
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 3);
  }

  Client& ClientHere() {
    if (client_ == nullptr) throw std::invalid_argument("not connected");
    return *client_;
  }

  std::map<std::string, std::shared_ptr<Entry>> entries_;
  std::vector<MultiGuard> together_;  // their parts have been moved out
  std::unique_ptr<Client> client_;    // ends first: its callbacks use the entries
};

int Main() {
  std::signal(SIGPIPE, SIG_IGN);
  Print({{"event", "ready"},
         {"language", "C++"},
         {"features", {"cancel", "fork", "queued", "many", "ordered", "stores"}}});
  Driver driver;
  std::string text;
  while (std::getline(std::cin, text)) {
    try {
      driver.Obey(json::parse(text));
    } catch (const std::exception& error) {
      Print({{"event", "failed"}, {"line", text}, {"message", error.what()}});
    }
  }
  return 0;
}

}  // namespace
}  // namespace distlock::conformance

int main() { return distlock::conformance::Main(); }
