// SPDX-License-Identifier: Apache-2.0
#include "simulation/watcher.h"

#include <algorithm>

namespace distlock::sim {
namespace {

std::string Words(const StoreObserver::Sight& sight) {
  std::string text = std::to_string(sight.waiting) + " waiting";
  for (const uint64_t token : sight.tokens) text += ", held under " + std::to_string(token);
  return text;
}

}  // namespace

class Watcher::Ears : public Listener {
 public:
  Ears(Watcher* watcher, WirePtr wire) : watcher_(watcher), wire_(std::move(wire)) {}
  void OnLock(const v1::LockInfo& lock) override {
    if (watcher_->wire_ != wire_) return;
    StoreObserver::Sight sight{.tokens = {}, .waiting = static_cast<size_t>(lock.queue_length())};
    for (const v1::Holder& holder : lock.holders()) {
      sight.tokens.push_back(static_cast<uint64_t>(holder.fencing_token()));
    }
    std::sort(sight.tokens.begin(), sight.tokens.end());
    watcher_->env_.Log([&] { return "  " + watcher_->name() + " sees " + lock.key() + ": " + Words(sight); });
    watcher_->told_ = std::move(sight);
  }

 private:
  Watcher* watcher_;
  const WirePtr wire_;
};

Watcher::Watcher(Env& env, int number, std::vector<std::unique_ptr<BrokerProcess>>& brokers)
    : Process(env, Actor::Kind::kClient, "watcher " + std::to_string(number)),
      brokers_(brokers),
      lock_(static_cast<int32_t>(env.dice.Roll(static_cast<int>(env.history.locks.size())))) {}

void Watcher::Start() {
  Live();
  Begin();
}

void Watcher::Begin() {
  if (left_) return;
  BrokerProcess& broker = *env_.dice.Pick(brokers_);
  if (!broker.alive()) return PostAfter(milliseconds(200), [this] { Begin(); });
  wire_ = Wire::Connect(env_, *this, broker);
  begun_ = env_.now();
  told_.reset();
  wire_->on_closed[Wire::kClient] = [this, wire = wire_.get()] {
    if (wire_.get() == wire) OnOver();
  };
  wire_->Send(Wire::kClient, [&broker, wire = wire_, ears = std::make_shared<Ears>(this, wire_),
                              key = env_.history.locks[static_cast<size_t>(lock_)]] {
    broker.front().Watch(broker.front().Accept(wire, ears), key);
  });
}

void Watcher::OnOver() {
  wire_.reset();
  begun_ = kNever;
  PostAfter(env_.dice.Between(milliseconds(10), milliseconds(500)), [this] { Begin(); });
}

void Watcher::Leave() {
  left_ = true;
  if (wire_ != nullptr) std::exchange(wire_, nullptr)->Close(Wire::kClient);
  begun_ = kNever;
}

std::string Watcher::Wrong(const StoreObserver::Sight& now) const {
  if (!told_) return name() + " was shown nothing";
  return told_->SameAs(now) ? "" : name() + " was told last: " + Words(*told_) + "; but it is: " + Words(now);
}

}  // namespace distlock::sim
