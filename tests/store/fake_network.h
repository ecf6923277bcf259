// SPDX-License-Identifier: Apache-2.0
//
// A network in virtual time: timers that fire when the test lets time pass, and connections whose other end the test
// plays. One thread.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parse_reply.h"
#include "store/redis/transport.h"

namespace distlock::store {

class FakeTimers : public Timers {
 public:
  core::Instant Now() const override { return now_; }
  std::unique_ptr<Timer> Make(std::function<void()> fire) override {
    return std::make_unique<FakeTimer>(*this, std::move(fire));
  }

  // Lets time pass; each timer fires when it is due.
  void Advance(core::Duration by) {
    const core::Instant until = now_ + by;
    while (FakeTimer* next = Next(until)) {
      now_ = std::max(now_, next->due_);
      next->Fire();
    }
    now_ = until;
  }
  // Time passes and nothing fires, as for a process that is stopped; what is due then fires afterwards.
  void Pause(core::Duration by) {
    now_ += by;
    Advance(core::Duration::zero());
  }

 private:
  class FakeTimer : public Timer {
   public:
    FakeTimer(FakeTimers& timers, std::function<void()> fire) : timers_(timers), fire_(std::move(fire)) {
      timers_.timers_.insert(this);
    }
    ~FakeTimer() override { timers_.timers_.erase(this); }
    void Start(core::Duration delay) override {
      active_ = true;
      due_ = timers_.now_ + delay;
      order_ = ++timers_.last_order_;
    }
    void Stop() override { active_ = false; }
    bool active() const override { return active_; }
    void Fire() {
      active_ = false;
      const auto fire = fire_;  // it may destroy this timer
      fire();
    }

    FakeTimers& timers_;
    const std::function<void()> fire_;
    bool active_ = false;
    core::Instant due_{};
    uint64_t order_ = 0;
  };

  FakeTimer* Next(core::Instant until) {
    FakeTimer* next = nullptr;
    for (FakeTimer* timer : timers_) {
      if (!timer->active_ || timer->due_ > until) continue;
      if (next == nullptr || std::pair(timer->due_, timer->order_) < std::pair(next->due_, next->order_)) next = timer;
    }
    return next;
  }

  core::Instant now_{std::chrono::hours(1)};
  uint64_t last_order_ = 0;
  std::set<FakeTimer*> timers_;
};

class FakeTransport : public Transport {
 public:
  FakeTransport(Owner* owner, core::Instant now) : dialed_at(now), owner_(owner) {}

  void Append(std::string_view command) override {
    appended_ += command.size();
    commands.emplace_back(command);
  }
  void Flush() override { flushed_ = appended_; }
  uint64_t appended() const override { return appended_; }
  uint64_t sent() const override { return std::min(flushed_, room); }
  void Close() override { owner_ = nullptr; }

  bool open() const { return owner_ != nullptr; }
  void Connect() { owner_->OnConnected(); }
  // RESP; nothing once the connection is over.
  void Reply(const std::string& bytes) {
    if (owner_ != nullptr) owner_->OnReply(Parse(bytes));
  }
  void Drop(const std::string& cause) { std::exchange(owner_, nullptr)->OnClosed(cause); }

  const core::Instant dialed_at;
  uint64_t room = ~uint64_t{0};  // bytes that the network takes
  std::vector<std::string> commands;

 private:
  Owner* owner_;
  uint64_t appended_ = 0;
  uint64_t flushed_ = 0;
};

class FakeDialer : public Dialer {
 public:
  explicit FakeDialer(const Timers& timers) : timers_(timers) {}
  std::shared_ptr<Transport> Dial(const ServerAddress& address, Transport::Owner* owner) override {
    addresses.push_back(address);
    dialed.push_back(std::make_shared<FakeTransport>(owner, timers_.Now()));
    return dialed.back();
  }

  std::vector<ServerAddress> addresses;
  std::vector<std::shared_ptr<FakeTransport>> dialed;

 private:
  const Timers& timers_;
};

struct FakeNetwork {
  std::shared_ptr<FakeTimers> timers = std::make_shared<FakeTimers>();
  std::shared_ptr<FakeDialer> dialer = std::make_shared<FakeDialer>(*timers);
  Network network{dialer, timers};
};

}  // namespace distlock::store
