// SPDX-License-Identifier: Apache-2.0
#include "model_store.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>
#include <vector>

#include "model_server.h"

namespace distlock::shard {

// Thread: its shard's loop, but for Nudge.
class ModelStore final : public store::Store, private store::StoreListener {
 public:
  ModelStore(ModelStores& stores, const std::string& broker_id, uv_loop_t* loop)
      : stores_(stores), server_(ModelServer::Make(loop)), store_(server_->network(), OptionsOf(broker_id)) {
    nudged_.data = this;
    uv_async_init(loop, &nudged_, [](uv_async_t* h) { static_cast<ModelStore*>(h->data)->OnNudge(); });
  }

  void Start(store::StoreListener* listener) override {
    listener_ = listener;
    {
      std::lock_guard lock(stores_.mu_);
      stores_.stores_.emplace(this, false);
    }
    OnNudge();
    store_.Start(this);
  }
  void Submit(core::StoreCommand&& command) override;
  void Flush() override;
  void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
               std::function<void(absl::StatusOr<store::LockView>)> done) override;
  void List(std::string ns, std::string prefix, uint32_t page_size, std::string page_token, core::Duration timeout,
            std::function<void(absl::StatusOr<store::LockPage>)> done) override {
    store_.List(std::move(ns), std::move(prefix), page_size, std::move(page_token), timeout, Holding(std::move(done)));
  }
  bool AllServersAreUp() const override { return store_.AllServersAreUp(); }
  void Stop() override;

  void Nudge() { uv_async_send(&nudged_); }

 private:
  static store::StoreOptions OptionsOf(const std::string& broker_id) {
    store::StoreOptions options;
    options.locks.broker_id = broker_id;
    return options;
  }

  void OnStoreInput(core::Input&& input) override;
  void OnNudge();
  void NoteReply(core::StoreReply& reply);
  void NoteState(bool up);
  // Runs `tell`, now or when answers are not held back any more.
  void Tell(std::function<void()> tell);
  bool Holds() const {
    std::lock_guard lock(stores_.mu_);
    return stores_.hold_;
  }
  // An answer to a question that is held back is Cancelled when the store stops.
  template <typename Answer>
  std::function<void(absl::StatusOr<Answer>)> Holding(std::function<void(absl::StatusOr<Answer>)> done) {
    return [this, done = std::move(done)](absl::StatusOr<Answer> answer) mutable {
      Tell([this, done = std::move(done), answer = std::move(answer)]() mutable {
        done(stopped_ ? absl::StatusOr<Answer>(absl::CancelledError("stopped")) : std::move(answer));
      });
    };
  }

  ModelStores& stores_;
  store::StoreListener* listener_ = nullptr;
  uv_async_t nudged_;
  const std::shared_ptr<ModelServer> server_;
  store::SingleStore store_;
  bool stopped_ = false;
  size_t unsent_ = 0;                         // commands since the last Flush
  std::map<core::OpId, core::Verb> pending_;  // what each command without an answer is
  std::vector<std::function<void()>> held_;
};

// ---- The store ----

void ModelStore::Submit(core::StoreCommand&& command) {
  ++unsent_;
  pending_[std::visit([](const auto& one) { return one.op; }, command)] = core::VerbOf(command);
  if (const auto* release = std::get_if<core::StoreRelease>(&command); release != nullptr && release->token == 0) {
    std::lock_guard lock(stores_.mu_);
    ++stores_.counts_.releases_of_any;
  }
  store_.Submit(std::move(command));
}

void ModelStore::Flush() {
  const size_t sent = std::exchange(unsent_, 0);
  if (sent > 0) {
    std::lock_guard lock(stores_.mu_);
    ++stores_.counts_.flushes;
    stores_.counts_.largest_flush = std::max(stores_.counts_.largest_flush, sent);
    stores_.changed_.notify_all();
  }
  store_.Flush();
}

void ModelStore::Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
                         std::function<void(absl::StatusOr<store::LockView>)> done) {
  {
    std::lock_guard lock(stores_.mu_);
    ++stores_.counts_.questions;
    stores_.changed_.notify_all();
  }
  store_.Inspect(name, max_waiters, timeout, Holding(std::move(done)));
}

void ModelStore::Stop() {
  stopped_ = true;
  listener_ = nullptr;
  store_.Stop();
  for (const auto& tell : std::exchange(held_, {})) tell();
  std::lock_guard lock(stores_.mu_);
  stores_.stores_.erase(this);
  ++stores_.counts_.stopped;
  uv_close(reinterpret_cast<uv_handle_t*>(&nudged_), nullptr);
}

// ---- Acts of the test ----

void ModelStore::OnStoreInput(core::Input&& input) {
  if (auto* reply = std::get_if<core::StoreReply>(&input)) NoteReply(*reply);
  const bool goes_up = std::holds_alternative<core::StoreUp>(input);
  const bool goes_down = std::holds_alternative<core::StoreDown>(input);
  auto tell = [this, input = std::move(input)]() mutable {
    if (listener_ != nullptr) listener_->OnStoreInput(std::move(input));
  };
  if (!goes_up && !goes_down) return Tell(std::move(tell));
  // Not an answer: it is never held back.
  tell();
  NoteState(goes_up);
}

void ModelStore::NoteReply(core::StoreReply& reply) {
  const core::Verb verb = pending_.extract(reply.op).mapped();
  const bool ran = !std::holds_alternative<core::StoreFailed>(reply.outcome);
  if (!ran) return;
  std::lock_guard lock(stores_.mu_);
  ++stores_.counts_.commands;
  stores_.counts_.acquires += verb == core::Verb::kAcquire;
  stores_.changed_.notify_all();
  if (stores_.lose_ == 0) return;
  --stores_.lose_;
  reply = core::StoreReply{.op = reply.op, .outcome = core::StoreUnknown{"the reply was lost"}};
}

void ModelStore::NoteState(bool up) {
  std::lock_guard lock(stores_.mu_);
  stores_.stores_[this] = up;
  stores_.changed_.notify_all();
}

void ModelStore::Tell(std::function<void()> tell) {
  // Behind what is still held back, though no longer to be.
  if (!stopped_ && (Holds() || !held_.empty())) {
    held_.push_back(std::move(tell));
  } else {
    tell();
  }
}

void ModelStore::OnNudge() {
  bool up = false;
  {
    std::lock_guard lock(stores_.mu_);
    up = stores_.up_;
  }
  server_->SetAway(!up);
  if (Holds()) return;
  for (const auto& tell : std::exchange(held_, {})) tell();
}

// ---- All stores of a test ----

std::string ModelStores::BrokerIdOf(int shard) {
  constexpr char kDigits[] = "0123456789abcdef";
  return std::string("00000000000000") + kDigits[shard / 16] + kDigits[shard % 16];
}

std::function<std::unique_ptr<store::Store>(int, uv_loop_t*)> ModelStores::Factory(
    std::function<std::string(int)> broker_id_of) {
  return [this, broker_id_of = std::move(broker_id_of)](int shard, uv_loop_t* loop) {
    return std::make_unique<ModelStore>(*this, broker_id_of(shard), loop);
  };
}

void ModelStores::Change(const std::function<void()>& change) {
  std::lock_guard lock(mu_);
  change();
  changed_.notify_all();
  for (const auto& [store, up] : stores_) store->Nudge();
}

void ModelStores::HoldReplies(bool hold) {
  Change([&] { hold_ = hold; });
}
void ModelStores::LoseReplies(int count) {
  Change([&] { lose_ = count; });
}
void ModelStores::SetUp(bool up) {
  Change([&] { up_ = up; });
  std::unique_lock lock(mu_);
  const auto told = [up](const auto& store) { return store.second == up; };
  changed_.wait_for(lock, std::chrono::minutes(1), [&] { return std::all_of(stores_.begin(), stores_.end(), told); });
}

ModelStores::Counts ModelStores::counts() const {
  std::lock_guard lock(mu_);
  return counts_;
}

bool ModelStores::Await(const std::function<bool(const Counts&)>& reached) {
  std::unique_lock lock(mu_);
  return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return reached(counts_); });
}

}  // namespace distlock::shard
