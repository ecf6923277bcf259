// SPDX-License-Identifier: Apache-2.0
//
// A store in memory behind the seam, which does what a script tells it: answers at once, later or never, loses replies,
// goes down. Locks are kept honestly: one holder, waiters in order, a token per grant; no time to live. Of
// converted leases it keeps that they are, but lets nobody else in; no broker but the caller hears of a forced release.
//
// Thread: FakeStore on its shard's loop; StoreScript on any, shared by a test and the stores of all its shards.
#pragma once

#include <uv.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "shard/shard_set.h"
#include "store/store.h"

namespace distlock::shard {

class FakeStore;

class StoreScript {
 public:
  struct Counts {
    size_t commands = 0;
    size_t acquires = 0;
    size_t flushes = 0;        // that had something to send
    size_t largest_flush = 0;  // commands
    size_t questions = 0;      // asked by Inspect
    size_t stopped = 0;        // stores
  };

  std::function<std::unique_ptr<store::Store>(int, uv_loop_t*)> Factory();

  void HoldReplies(bool hold);
  void LoseReplies(int count);  // of the next commands that run
  void ShowHolders(int count);  // of each held lock, to Inspect and List: copies of the one that it has
  void SetUp(bool up);          // returns when every shard that runs has been told, or after a minute

  Counts counts() const;
  // Waits until `reached` holds of the counts; false after a minute.
  bool Await(const std::function<bool(const Counts&)>& reached);

 private:
  friend class FakeStore;
  void Change(const std::function<void()>& change);

  mutable std::mutex mu_;
  std::condition_variable changed_;
  bool hold_ = false;
  bool up_ = true;
  int shown_ = 1;
  int lose_ = 0;
  Counts counts_;
  std::map<FakeStore*, bool> stores_;  // and whether its shard has been told that it is up
};

class FakeStore final : public store::Store {
 public:
  FakeStore(StoreScript& script, uv_loop_t* loop);
  ~FakeStore() override;

  void Start(store::StoreListener* listener) override;
  void Submit(core::StoreCommand&& command) override;
  void Flush() override;
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<store::LockView>)> done) override;
  void List(std::string ns, std::string prefix, uint32_t page_size, std::string page_token, core::Duration timeout,
            std::function<void(absl::StatusOr<store::LockPage>)> done) override;
  void Stop() override;

  void Nudge() { uv_async_send(&nudged_); }

 private:
  struct Lock {
    std::optional<core::HolderView> holder;
    std::deque<core::StoreAcquire> waiters;
  };
  using Outcome = decltype(core::StoreReply::outcome);

  void OnNudge();
  void Deliver();
  void Answer(core::OpId op, Outcome outcome);
  store::LockView ViewOf(const core::LockName& name);
  std::vector<core::HolderView> Shown(const Lock& lock);
  core::HolderView Grant(Lock& lock, const core::StoreAcquire& to);
  static std::vector<core::HolderView> Holders(const Lock& lock);
  std::vector<core::HolderView> HandOff(Lock& lock);
  Outcome Run(const core::StoreAcquire& c);
  Outcome Run(const core::StoreAcquireAll& c);
  Outcome Run(const core::StoreRenew& c);
  Outcome Run(const core::StoreRelease& c);
  Outcome Run(const core::StoreWithdraw& c);
  Outcome Run(const core::StoreTend& c);
  Outcome Run(const core::StoreWatch& c);
  Outcome Run(const core::StoreConvert& c);
  Outcome Run(const core::StoreForce& c);

  StoreScript& script_;
  store::StoreListener* listener_ = nullptr;
  uv_async_t nudged_;
  uv_timer_t deliver_;
  bool up_ = false;
  uint64_t last_token_ = 0;
  std::map<core::LockName, Lock> locks_;
  std::set<core::LockName> watched_;
  std::vector<core::StoreCommand> unsent_;
  std::vector<core::Input> answers_;
  std::vector<std::function<void(bool stopped)>> questions_;
};

}  // namespace distlock::shard
