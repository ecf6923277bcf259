// SPDX-License-Identifier: Apache-2.0
//
// Stands in for a store that must not be used yet: it is down, for a reason that people are told, and nothing is sent
// to any server. Once it may be used, it is opened, and this passes everything on.
//
// Thread: the loop's, as Store says; `may_open` reads what another thread has set.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/redis/transport.h"
#include "store/store.h"

namespace distlock::store {

class WaitingStore : public Store {
 public:
  // `why`: of the time before `may_open`, which is asked a few times a second.
  WaitingStore(const std::shared_ptr<Timers>& timers, std::string why, std::function<bool()> may_open,
               std::function<std::unique_ptr<Store>()> open);
  ~WaitingStore() override { Stop(); }

  void Start(StoreListener* listener) override;
  void Submit(core::StoreCommand&& command) override;
  void Flush() override;
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<LockView>)> done) override;
  void List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size, std::string page_token,
            core::Duration timeout, std::function<void(absl::StatusOr<LockPage>)> done) override;
  bool AllServersAreUp() const override { return store_ != nullptr && store_->AllServersAreUp(); }
  void Stop() override;

 private:
  void OnTimer();
  void Refuse(const absl::Status& why);

  // Const after construction.
  const std::string why_;
  const std::function<bool()> may_open_;
  const std::function<std::unique_ptr<Store>()> open_;

  StoreListener* listener_ = nullptr;  // null before Start and after Stop
  bool told_ = false;                  // that it is down
  std::vector<core::OpId> commands_;   // that are not answered
  std::vector<std::function<void(const absl::Status&)>> questions_;
  std::unique_ptr<Store> store_;  // null until it is opened
  const std::unique_ptr<Timer> timer_;
};

}  // namespace distlock::store
