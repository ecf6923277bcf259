// SPDX-License-Identifier: Apache-2.0
#include "main/reload.h"

#include <sys/stat.h>

#include "contract/utf8.h"
#include "ops/log.h"

namespace distlock {

void Reloader::Add(ReloadUnit unit) { units_.push_back({.unit = std::move(unit), .used = {}, .seen = {}}); }

Reloader::Stamp Reloader::StampOf(const ReloadUnit& unit) {
  Stamp stamp;
  for (const std::string& file : unit.files) {
    struct stat now{};
    if (stat(file.c_str(), &now) != 0) now = {};  // reading it says why
    const int64_t changed_ns = int64_t{now.st_mtim.tv_sec} * 1'000'000'000 + now.st_mtim.tv_nsec;
    stamp.emplace_back("device", static_cast<int64_t>(now.st_dev));
    stamp.emplace_back("inode", static_cast<int64_t>(now.st_ino));
    stamp.emplace_back("size", static_cast<int64_t>(now.st_size));
    stamp.emplace_back("changed", changed_ns);
  }
  return stamp;
}

absl::Status Reloader::Begin() {
  for (Watched& watched : units_) {
    watched.used = watched.seen = StampOf(watched.unit);
    if (absl::Status loaded = watched.unit.load(); !loaded.ok()) return loaded;
  }
  return absl::OkStatus();
}

v1::ReloadedUnit Reloader::Load(Watched& watched) {
  watched.used = watched.seen = StampOf(watched.unit);
  const absl::Status loaded = watched.unit.load();
  const std::string problem = contract::CleanText(std::string(loaded.message()));
  v1::ReloadedUnit done;
  done.set_unit(watched.unit.name);
  done.set_outcome(loaded.ok() ? v1::RELOAD_OUTCOME_RELOADED : v1::RELOAD_OUTCOME_REFUSED);
  done.set_problem(problem);
  metrics_.reloads[loaded.ok() ? ReloadOutcome::kReloaded : ReloadOutcome::kRefused][watched.unit.part].Increment();
  if (loaded.ok()) {
    ops::Info("reloaded", {{"unit", watched.unit.name}});
  } else {
    ops::Error("reload refused", {{"unit", watched.unit.name}, {"problem", problem}, {"in_force", "the old content"}});
  }
  return done;
}

v1::ReloadResponse Reloader::LoadAll() {
  v1::ReloadResponse response;
  for (Watched& watched : units_) *response.add_units() = Load(watched);
  if (changed_) changed_();
  return response;
}

void Reloader::Ask(Answer answer) {
  {
    std::lock_guard lock(mu_);
    asked_.push_back(std::move(answer));
  }
  wakeups_.Notify();
}

void Reloader::OnWake(bool hang_up, core::Instant now) {
  std::vector<Answer> asked;
  {
    std::lock_guard lock(mu_);
    asked.swap(asked_);
  }
  if (hang_up && units_.empty()) ops::Info("SIGHUP: nothing to reload");
  if (hang_up || !asked.empty()) {
    const v1::ReloadResponse response = LoadAll();
    for (const Answer& answer : asked) answer(response);
  }
  if (looked_ && now - *looked_ < kBetweenLooks) return;
  looked_ = now;
  Look();
}

void Reloader::Look() {
  bool changed = false;
  for (Watched& watched : units_) {
    Stamp stamp = StampOf(watched.unit);
    const bool settled = stamp == watched.seen;
    watched.seen = std::move(stamp);
    if (!settled || watched.seen == watched.used) continue;
    changed |= Load(watched).outcome() == v1::RELOAD_OUTCOME_RELOADED;
  }
  if (changed && changed_) changed_();
}

}  // namespace distlock
