// SPDX-License-Identifier: Apache-2.0
//
// Reads parts of the configuration again: on SIGHUP, when AdminService.Reload asks, and when their files change. Each
// unit is all or nothing: what is wrong is logged and not used, and the old content stays.
//
// A file counts as changed when its device, inode, size or time has changed, and two looks in a row, a second apart,
// see the same: so a file is not read while it is being written. Links are followed, as Kubernetes swaps them.
//
// Thread: Ask on any; the rest on main's.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/types.h"
#include "distlock/v1/admin_service.pb.h"
#include "main/metrics.h"
#include "main/wakeups.h"

namespace distlock {

struct ReloadUnit {
  ReloadPart part;
  std::string name;                    // as ReloadedUnit.unit
  std::vector<std::string> files;      // that are looked at
  std::function<absl::Status()> load;  // reads the files and uses them, or says why not and changes nothing
};

class Reloader {
 public:
  using Answer = std::function<void(const v1::ReloadResponse&)>;

  Reloader(Metrics& metrics, Wakeups& wakeups) : metrics_(metrics), wakeups_(wakeups) {}

  void Add(ReloadUnit unit);
  // Called when a reload has changed something.
  void OnChange(std::function<void()> changed) { changed_ = std::move(changed); }

  // The first load of all units. An error names the unit's problem; the daemon must not start.
  absl::Status Begin();
  // For AdminService.Reload: answers from main's thread, soon.
  void Ask(Answer answer);
  // Main was woken: looks at the files about twice a second, and answers who has asked. `hang_up`: by SIGHUP.
  void OnWake(bool hang_up, core::Instant now);

 private:
  using Stamp = std::vector<std::pair<std::string, int64_t>>;
  struct Watched {
    ReloadUnit unit;
    Stamp used;  // of the files when they were last read
    Stamp seen;  // at the last look
  };
  static constexpr core::Duration kBetweenLooks = std::chrono::milliseconds(400);

  static Stamp StampOf(const ReloadUnit& unit);
  v1::ReloadedUnit Load(Watched& watched);
  v1::ReloadResponse LoadAll();
  void Look();

  Metrics& metrics_;
  Wakeups& wakeups_;
  std::function<void()> changed_;
  std::vector<Watched> units_;
  std::optional<core::Instant> looked_;

  // Guarded by mu_.
  std::mutex mu_;
  std::vector<Answer> asked_;
};

}  // namespace distlock
