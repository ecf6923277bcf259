// SPDX-License-Identifier: Apache-2.0
#include "main/store_changes.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/ids.h"
#include "ops/log.h"
#include "store/open_store.h"

namespace distlock {
namespace {

constexpr std::chrono::seconds kLookEvery{2};

absl::Status CheckReads(const store::SchemaOptions& schema, uint32_t to) {
  if (to >= schema.oldest && to <= schema.newest) return absl::OkStatus();
  const std::string reads = schema.oldest == schema.newest
                                ? absl::StrCat("schema ", schema.newest)
                                : absl::StrCat("the schemas ", schema.oldest, " to ", schema.newest);
  return absl::FailedPreconditionError(absl::StrCat("the store cannot be raised to schema ", to,
                                                    " by this broker, which reads ", reads,
                                                    ": ask a broker of a release that reads it"));
}

}  // namespace

StoreChanges::StoreChanges(const StoreSetup& setup, core::Duration timeout, core::Duration longest_ttl)
    : options_(setup.options),
      shown_(setup.shown),
      timeout_(timeout),
      longest_ttl_(longest_ttl),
      may_open_(setup.may_open) {
  if (!setup.awaits_init.empty()) watcher_ = std::thread([this] { Watch(); });
}

StoreChanges::~StoreChanges() {
  std::thread last;
  {
    std::lock_guard lock(mu_);
    stopped_ = true;
    last.swap(thread_);
  }
  stops_.notify_all();
  if (last.joinable()) last.join();
  if (watcher_.joinable()) watcher_.join();
}

void StoreChanges::Upgrade(uint32_t to, const std::string& caller, const Changed& changed) {
  Run(absl::StrCat("store upgrade to schema ", to), caller, [this, to] { return DoUpgrade(to); }, changed);
}

void StoreChanges::InitQuorum(bool all_brokers_stopped, const std::string& caller, const Changed& changed) {
  Run(
      all_brokers_stopped ? "quorum-init, all brokers stopped" : "quorum-init", caller,
      [this, all_brokers_stopped] { return DoInitQuorum(all_brokers_stopped); }, changed);
}

void StoreChanges::Run(const std::string& what, const std::string& caller, std::function<absl::Status()> change,
                       const Changed& changed) {
  if (const absl::Status begun = Begin(what, caller, std::move(change), changed); !begun.ok()) changed(begun);
}

absl::Status StoreChanges::Begin(const std::string& what, const std::string& caller,
                                 std::function<absl::Status()> change, Changed changed) {
  std::lock_guard lock(mu_);
  if (busy_) {
    return absl::UnavailableError(
        absl::StrCat("this broker changes its store already: try again when that is over, within ",
                     std::chrono::ceil<std::chrono::seconds>(2 * timeout_).count(), " s"));
  }
  if (thread_.joinable()) thread_.join();
  try {
    thread_ = std::thread([this, what, caller, change = std::move(change), changed = std::move(changed)] {
      const absl::Status done = change();
      {
        std::lock_guard ended(mu_);
        busy_ = false;
      }
      if (stopped_) return;
      ops::Warn("store change", {{"what", what},
                                 {"who", caller},
                                 {"redis", shown_},
                                 {"outcome", done.ok() ? "done" : std::string(done.message())}});
      changed(done);
    });
  } catch (const std::system_error& error) {
    return absl::UnavailableError(absl::StrCat("the broker's machine has no thread left: ", error.what()));
  }
  busy_ = true;
  return absl::OkStatus();
}

absl::Status StoreChanges::Check(store::StoreOptions options) const {
  options.locks.broker_id = contract::RandomHex(8);
  return store::CheckStore(std::move(options), timeout_,
                           {.on_problem = nullptr, .stopped = [this] { return stopped_.load(); }})
      .status();
}

void StoreChanges::Watch() {
  const auto waits = [this] {
    std::unique_lock lock(mu_);
    return !stops_.wait_for(lock, kLookEvery, [this] { return stopped_.load(); });
  };
  while (waits() && !*may_open_) {
    store::StoreOptions options = options_;
    options.locks.schema.task = store::SchemaTask::kLook;
    if (Check(std::move(options)).ok()) *may_open_ = true;
  }
  if (!stopped_) ops::Info("the servers are this broker's quorum now", {{"redis", shown_}});
}

absl::Status StoreChanges::DoUpgrade(uint32_t to) const {
  if (absl::Status reads = CheckReads(options_.locks.schema, to); !reads.ok()) return reads;
  for (const store::SchemaTask task : {store::SchemaTask::kAskUpgrade, store::SchemaTask::kUpgrade}) {
    store::StoreOptions options = options_;
    options.locks.schema.task = task;
    options.locks.schema.upgrade_to = to;
    if (absl::Status done = Check(std::move(options)); !done.ok()) return done;
  }
  return absl::OkStatus();
}

absl::Status StoreChanges::DoInitQuorum(bool all_brokers_stopped) const {
  if (options_.url.topology != store::StoreUrl::Topology::kQuorum) {
    return absl::FailedPreconditionError(
        absl::StrCat("quorum-init is for a quorum of independent servers, and the store of this broker is ", shown_,
                     ": ask a broker that was started with --redis redlock://host,host,host"));
  }
  store::StoreOptions options = options_;
  options.locks.schema.task = store::SchemaTask::kLook;
  options.quorum_check = store::StoreOptions::QuorumCheck::kReplace;
  if (!all_brokers_stopped) options.quiet_for = longest_ttl_;
  absl::Status done = Check(std::move(options));
  if (done.ok()) *may_open_ = true;
  return done;
}

}  // namespace distlock
