// SPDX-License-Identifier: Apache-2.0
#include "bench/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "bench/hoard.h"

namespace distlock::bench {
namespace {

constexpr double kTtlSeconds = 3000;
constexpr size_t kBatch = 100;  // sessions opened before their heartbeats begin
constexpr double kGiB = 1024.0 * 1024 * 1024;

double UsedMemory(const Lab& lab) { return std::stod(lab.RedisInfo("memory", "used_memory")); }

// `wanted`, or fewer when this process may not open so many connections.
size_t SessionsPossible(size_t wanted) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;  // children inherit it
  setrlimit(RLIMIT_NOFILE, &files);
  constexpr size_t kOtherFiles = 200;
  return std::min(wanted, files.rlim_cur > kOtherFiles ? static_cast<size_t>(files.rlim_cur) - kOtherFiles : 0);
}

// Idle sessions; any event for them is a problem.
class IdleSessions {
 public:
  IdleSessions(const std::string& target, size_t count) {
    for (size_t i = 0; i < count; i += kBatch) {
      batches_.push_back(OpenSessions(std::min(kBatch, count - i), [&](size_t) {
        return std::make_unique<Session>(target, [this](Session&, const SeenEvent& event) { Note(Describe(event)); });
      }));
      pulses_.push_back(std::make_unique<Pulse>(Pointers(batches_.back())));
    }
  }

  void Close() {
    pulses_.clear();
    for (const auto& batch : batches_) {
      for (const auto& session : batch) Note(session->Close());
    }
    std::lock_guard lock(mu_);
    if (!problem_.empty()) throw std::runtime_error(problem_);
  }

 private:
  void Note(const std::string& problem) {
    std::lock_guard lock(mu_);
    if (problem_.empty()) problem_ = problem;
  }

  std::mutex mu_;
  std::string problem_;  // guarded by mu_
  std::vector<std::vector<std::unique_ptr<Session>>> batches_;
  std::vector<std::unique_ptr<Pulse>> pulses_;
};

}  // namespace

Sample LeaseMemory(Lab& lab) {
  Sample sample;
  try {
    const std::unique_ptr<Daemon> broker = lab.FreshBroker("memory");
    const auto leases = static_cast<size_t>(lab.size().leases);
    Hoard hoard(*broker, leases, kTtlSeconds);
    const double resident = ResidentBytes(broker->pid());
    const double used = UsedMemory(lab);
    hoard.TakeAll();
    const auto count = static_cast<double>(leases);
    sample.values["daemon B/lease"] = (ResidentBytes(broker->pid()) - resident) / count;
    sample.values["redis B/lease"] = (UsedMemory(lab) - used) / count;
    const int64_t start = NowNanos();
    hoard.GoodbyeAll();
    hoard.WaitUntilFreed();
    sample.values["free µs/lease"] = static_cast<double>(NowNanos() - start) * 1e-3 / count;
    lab.EndFreshBroker(*broker);
  } catch (const std::runtime_error& e) {
    sample.error = e.what();
  }
  return sample;
}

Sample SessionMemory(Lab& lab) {
  Sample sample;
  try {
    const size_t count = SessionsPossible(static_cast<size_t>(lab.size().sessions));
    const std::unique_ptr<Daemon> broker =
        lab.FreshBroker("sessions", {"--limits",
                                     "max-sessions-per-peer=1000000,max-connections=1000000,max-connections-per-peer="
                                     "1000000,new-connections-per-peer=1000000"});
    const double resident = ResidentBytes(broker->pid());
    IdleSessions sessions(broker->target(), count);
    const double each = (ResidentBytes(broker->pid()) - resident) / static_cast<double>(count);
    sample.values["daemon B/session"] = each;
    sample.values["sessions/GiB"] = kGiB / each;
    sessions.Close();
    lab.EndFreshBroker(*broker);
  } catch (const std::runtime_error& e) {
    sample.error = e.what();
  }
  return sample;
}

}  // namespace distlock::bench
