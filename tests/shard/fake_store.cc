// SPDX-License-Identifier: Apache-2.0
#include "fake_store.h"

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

namespace distlock::shard {
namespace {

core::StoreTime WallClock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::microseconds>(now).count()};
}

bool Is(const core::HolderView& holder, const core::OwnerId& owner, uint64_t token) {
  return holder.owner == owner && (token == 0 || holder.token == token);
}

}  // namespace

std::function<std::unique_ptr<store::Store>(int, uv_loop_t*)> StoreScript::Factory() {
  return [this](int, uv_loop_t* loop) { return std::make_unique<FakeStore>(*this, loop); };
}

void StoreScript::Change(const std::function<void()>& change) {
  std::lock_guard lock(mu_);
  change();
  changed_.notify_all();
  for (const auto& [store, up] : stores_) store->Nudge();
}

void StoreScript::HoldReplies(bool hold) {
  Change([&] { hold_ = hold; });
}
void StoreScript::LoseReplies(int count) {
  Change([&] { lose_ = count; });
}
void StoreScript::ShowHolders(int count) {
  Change([&] { shown_ = count; });
}
void StoreScript::SetUp(bool up) {
  Change([&] { up_ = up; });
  std::unique_lock lock(mu_);
  const auto told = [up](const auto& store) { return store.second == up; };
  changed_.wait_for(lock, std::chrono::minutes(1), [&] { return std::all_of(stores_.begin(), stores_.end(), told); });
}

StoreScript::Counts StoreScript::counts() const {
  std::lock_guard lock(mu_);
  return counts_;
}

bool StoreScript::Await(const std::function<bool(const Counts&)>& reached) {
  std::unique_lock lock(mu_);
  return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return reached(counts_); });
}

FakeStore::FakeStore(StoreScript& script, uv_loop_t* loop) : script_(script) {
  nudged_.data = deliver_.data = this;
  uv_async_init(loop, &nudged_, [](uv_async_t* h) { static_cast<FakeStore*>(h->data)->OnNudge(); });
  uv_timer_init(loop, &deliver_);
}

FakeStore::~FakeStore() = default;

void FakeStore::Start(store::StoreListener* listener) {
  listener_ = listener;
  {
    std::lock_guard lock(script_.mu_);
    script_.stores_.emplace(this, false);
  }
  Nudge();
}

void FakeStore::Submit(core::StoreCommand&& command) { unsent_.push_back(std::move(command)); }

void FakeStore::Flush() {
  if (unsent_.empty()) return;
  for (const core::StoreCommand& command : std::exchange(unsent_, {})) {
    std::visit(
        [this](const auto& c) {
          if constexpr (requires { c.op; }) {
            if (!up_) {
              answers_.emplace_back(core::StoreReply{.op = c.op, .time = {}, .outcome = core::StoreFailed{}});
              return;
            }
            auto outcome = Run(c);
            if constexpr (requires { c.owner; }) {
              if (watched_.contains(c.name)) answers_.emplace_back(core::ChangeNotice{c.name});
            }
            std::lock_guard lock(script_.mu_);
            ++script_.counts_.commands;
            script_.counts_.acquires += std::is_same_v<std::decay_t<decltype(c)>, core::StoreAcquire>;
            const bool lost = script_.lose_ > 0;
            if (lost) --script_.lose_;
            Answer(c.op, lost ? Outcome(core::StoreUnknown{"reply lost"}) : std::move(outcome));
          }
        },
        command);
  }
  std::lock_guard lock(script_.mu_);
  ++script_.counts_.flushes;
  script_.counts_.largest_flush = std::max(script_.counts_.largest_flush, answers_.size());
  script_.changed_.notify_all();
  if (!script_.hold_ && !uv_is_active(reinterpret_cast<uv_handle_t*>(&deliver_))) {
    uv_timer_start(&deliver_, [](uv_timer_t* h) { static_cast<FakeStore*>(h->data)->Deliver(); }, 0, 0);
  }
}

void FakeStore::Answer(core::OpId op, Outcome outcome) {
  const bool known = !std::holds_alternative<core::StoreUnknown>(outcome);
  const auto time = known ? WallClock() : core::StoreTime{};
  answers_.emplace_back(core::StoreReply{.op = op, .time = time, .outcome = std::move(outcome)});
}

void FakeStore::Deliver() {
  for (auto& answer : std::exchange(answers_, {})) listener_->OnStoreInput(std::move(answer));
  for (auto& question : std::exchange(questions_, {})) question(false);
}

void FakeStore::OnNudge() {
  bool up = false, hold = false;
  {
    std::lock_guard lock(script_.mu_);
    up = script_.up_;
    hold = script_.hold_;
  }
  if (up && !up_) {
    listener_->OnStoreInput(core::StoreUp{WallClock()});
    listener_->OnStoreInput(core::ChannelUp{});
  }
  if (!up && up_) listener_->OnStoreInput(core::StoreDown{"told to go down"});
  up_ = up;
  {
    std::lock_guard lock(script_.mu_);
    script_.stores_[this] = up;
    script_.changed_.notify_all();
  }
  if (!hold) Deliver();
}

void FakeStore::Inspect(const core::LockName& name, uint32_t, core::Duration,
                        std::function<void(absl::StatusOr<store::LockView>)> done) {
  questions_.push_back([this, name, done = std::move(done)](bool stopped) {
    if (stopped) return done(absl::CancelledError("stopped"));
    done(ViewOf(name));
  });
  {
    std::lock_guard lock(script_.mu_);
    ++script_.counts_.questions;
    script_.changed_.notify_all();
  }
  Nudge();
}

std::vector<core::HolderView> FakeStore::Shown(const Lock& lock) {
  if (!lock.holder) return {};
  std::lock_guard guard(script_.mu_);
  return std::vector<core::HolderView>(static_cast<size_t>(script_.shown_), *lock.holder);
}

store::LockView FakeStore::ViewOf(const core::LockName& name) {
  const Lock& lock = locks_[name];
  const auto shown = Shown(lock);
  return {.name = name,
          .holders = shown,
          .holder_count = static_cast<uint32_t>(shown.size()),
          .last_token = last_token_,
          .queue_length = static_cast<uint32_t>(lock.waiters.size()),
          .waiters = {}};
}

void FakeStore::List(std::string, std::string, uint32_t page_size, std::string page_token, core::Duration,
                     std::function<void(absl::StatusOr<store::LockPage>)> done) {
  questions_.push_back([this, page_size, after = std::move(page_token), done = std::move(done)](bool stopped) {
    if (stopped) return done(absl::CancelledError("stopped"));
    store::LockPage page;
    for (const auto& [name, lock] : locks_) {
      if (!lock.holder || name.escaped() <= after) continue;
      if (page.locks.size() == page_size) {
        page.next_page_token = page.locks.back().name.escaped();
        break;
      }
      page.locks.push_back(ViewOf(name));
    }
    done(std::move(page));
  });
  Nudge();
}

void FakeStore::Stop() {
  for (auto& question : std::exchange(questions_, {})) question(true);
  std::lock_guard lock(script_.mu_);
  script_.stores_.erase(this);
  ++script_.counts_.stopped;
  uv_close(reinterpret_cast<uv_handle_t*>(&nudged_), nullptr);
  uv_close(reinterpret_cast<uv_handle_t*>(&deliver_), nullptr);
}

core::HolderView FakeStore::Grant(Lock& lock, const core::StoreAcquire& to) {
  lock.holder = core::HolderView{.owner = to.owner,
                                 .token = ++last_token_,
                                 .since = WallClock(),
                                 .ttl = to.ttl,
                                 .lock_delay = to.lock_delay,
                                 .time_left = to.ttl,
                                 .info = to.info};
  return *lock.holder;
}

std::vector<core::HolderView> FakeStore::Holders(const Lock& lock) {
  if (!lock.holder) return {};
  return {*lock.holder};
}

std::vector<core::HolderView> FakeStore::HandOff(Lock& lock) {
  if (lock.waiters.empty()) return {};
  const core::StoreAcquire next = std::move(lock.waiters.front());
  lock.waiters.pop_front();
  return {Grant(lock, next)};
}

FakeStore::Outcome FakeStore::Run(const core::StoreAcquire& c) {
  Lock& lock = locks_[c.name];
  if (!lock.holder) Grant(lock, c);
  if (lock.holder->owner == c.owner) return core::AcquireGranted{lock.holder->token, lock.holder->since};
  const auto length = static_cast<uint32_t>(lock.waiters.size());
  if (!c.wait) return core::AcquireHeld{Holders(lock), length, {}};
  auto place = std::find_if(lock.waiters.begin(), lock.waiters.end(), [&](auto& w) { return w.owner == c.owner; });
  const auto position = static_cast<uint32_t>(place - lock.waiters.begin());
  if (place == lock.waiters.end()) lock.waiters.push_back(c);
  return core::AcquireQueued{position, Holders(lock), static_cast<uint32_t>(lock.waiters.size()), {}};
}

FakeStore::Outcome FakeStore::Run(const core::StoreAcquireAll& c) {
  core::AcquireAllDone done;
  for (const core::StoreAcquire& item : c.items) {
    if (locks_[item.name].holder) return done;
  }
  for (const core::StoreAcquire& item : c.items) {
    const core::HolderView holder = Grant(locks_[item.name], item);
    done.grants.push_back({holder.token, holder.since});
  }
  return done;
}

FakeStore::Outcome FakeStore::Run(const core::StoreRenew& c) {
  core::RenewDoneBatch done;
  for (const core::RenewItem& item : c.items) {
    const auto& holder = locks_[item.name].holder;
    done.results.push_back(!holder                               ? core::RenewResult::kGone
                           : Is(*holder, item.owner, item.token) ? core::RenewResult::kRenewed
                                                                 : core::RenewResult::kAnothers);
  }
  return done;
}

FakeStore::Outcome FakeStore::Run(const core::StoreRelease& c) {
  Lock& lock = locks_[c.name];
  if (!lock.holder || !Is(*lock.holder, c.owner, c.token)) return core::GiveBackDone{};
  lock.holder.reset();
  return core::GiveBackDone{.was_holder = true, .next = HandOff(lock)};
}

FakeStore::Outcome FakeStore::Run(const core::StoreWithdraw& c) {
  Lock& lock = locks_[c.name];
  if (!c.keep_grant && lock.holder && lock.holder->owner == c.owner) {
    return Run(core::StoreRelease{.name = c.name, .owner = c.owner});
  }
  const size_t gone = std::erase_if(lock.waiters, [&](const auto& w) { return w.owner == c.owner; });
  return core::GiveBackDone{.was_waiter = gone > 0, .next = {}};
}

FakeStore::Outcome FakeStore::Run(const core::StoreTend& c) {
  Lock& lock = locks_[c.name];
  if (!lock.holder) HandOff(lock);
  return core::TendDone{.holders = Holders(lock)};
}

FakeStore::Outcome FakeStore::Run(const core::StoreWatch& c) {
  watched_.insert(c.name);
  return core::WatchDone{ViewOf(c.name)};
}

FakeStore::Outcome FakeStore::Run(const core::StoreConvert& c) {
  auto& holder = locks_[c.name].holder;
  if (!holder || !Is(*holder, c.owner, c.token)) return core::ConvertDone{};
  if (!holder->info.ends_with(c.info)) holder->info += c.info;
  return core::ConvertDone{.result = core::ConvertDone::Result::kConverted, .next = {}};
}

FakeStore::Outcome FakeStore::Run(const core::StoreForce& c) {
  Lock& lock = locks_[c.name];
  if (!lock.holder || !Is(*lock.holder, c.owner, c.token)) return core::ForceDone{.next = {}};
  lock.holder.reset();
  return core::ForceDone{.result = core::ForceDone::Result::kReleased, .next = HandOff(lock)};
}

}  // namespace distlock::shard
