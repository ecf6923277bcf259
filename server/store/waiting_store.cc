// SPDX-License-Identifier: Apache-2.0
#include "store/waiting_store.h"

#include <utility>

namespace distlock::store {
namespace {

constexpr core::Duration kLookEvery = std::chrono::milliseconds(200);

}  // namespace

WaitingStore::WaitingStore(const std::shared_ptr<Timers>& timers, std::string why, std::function<bool()> may_open,
                           std::function<std::unique_ptr<Store>()> open)
    : why_(std::move(why)),
      may_open_(std::move(may_open)),
      open_(std::move(open)),
      timer_(timers->Make([this] { OnTimer(); })) {}

void WaitingStore::Start(StoreListener* listener) {
  listener_ = listener;
  timer_->Start(core::Duration::zero());
}

void WaitingStore::Stop() {
  listener_ = nullptr;
  timer_->Stop();
  commands_.clear();
  Refuse(absl::CancelledError("stopped"));
  if (store_ != nullptr) store_->Stop();
}

void WaitingStore::OnTimer() {
  if (!std::exchange(told_, true)) listener_->OnStoreInput(core::StoreDown{why_});
  for (const core::OpId op : std::exchange(commands_, {})) {
    listener_->OnStoreInput(core::StoreReply{op, core::StoreFailed{core::FailureKind::kNotSent, why_}});
  }
  Refuse(absl::UnavailableError(why_));
  // An answer may have brought another question.
  if (!commands_.empty() || !questions_.empty()) return timer_->Start(core::Duration::zero());
  if (!may_open_()) return timer_->Start(kLookEvery);
  store_ = open_();
  store_->Start(listener_);
}

void WaitingStore::Refuse(const absl::Status& why) {
  for (const auto& question : std::exchange(questions_, {})) question(why);
}

void WaitingStore::Submit(core::StoreCommand&& command) {
  if (store_ != nullptr) return store_->Submit(std::move(command));
  commands_.push_back(std::visit([](const auto& one) { return one.op; }, command));
  if (listener_ != nullptr) timer_->Start(core::Duration::zero());
}

void WaitingStore::Flush() {
  if (store_ != nullptr) store_->Flush();
}

void WaitingStore::Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
                           std::function<void(absl::StatusOr<LockView>)> done) {
  if (store_ != nullptr) return store_->Inspect(name, max_waiters, timeout, std::move(done));
  questions_.emplace_back([done = std::move(done)](const absl::Status& why) { done(why); });
  if (listener_ != nullptr) timer_->Start(core::Duration::zero());
}

void WaitingStore::List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size,
                        std::string page_token, core::Duration timeout,
                        std::function<void(absl::StatusOr<LockPage>)> done) {
  if (store_ != nullptr) {
    return store_->List(std::move(escaped_namespace), std::move(escaped_key_prefix), page_size, std::move(page_token),
                        timeout, std::move(done));
  }
  questions_.emplace_back([done = std::move(done)](const absl::Status& why) { done(why); });
  if (listener_ != nullptr) timer_->Start(core::Duration::zero());
}

}  // namespace distlock::store
