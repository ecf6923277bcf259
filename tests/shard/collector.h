// SPDX-License-Identifier: Apache-2.0
//
// A sink that keeps what it hears and lets a test wait for it, and the inputs that tests post. Any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "shard/shard_set.h"

namespace distlock::shard {

class Collector : public Sink {
 public:
  using Heard = std::vector<core::Notify>;

  void OnEvents(int, std::vector<core::Notify> events) override {
    std::lock_guard lock(mu_);
    ++calls_;
    threads_.insert(std::this_thread::get_id());
    for (auto& event : events) heard_.push_back(std::move(event));
    changed_.notify_all();
  }
  void Send() override {
    std::lock_guard lock(mu_);
    sent_ = heard_.size();
    changed_.notify_all();
  }

  // False after a minute.
  bool Await(const std::function<bool(const Heard&)>& reached) {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return reached(heard_); });
  }

  // Waits until that many were heard and a Send has followed.
  bool AwaitSent(size_t count) {
    return Await([&](const Heard&) { return sent_ >= count; });
  }

  // Waits until `count` events of this type were heard.
  template <typename Event>
  bool AwaitAll(size_t count) {
    return Await([&](const Heard& heard) { return Count<Event>(heard) >= count; });
  }
  template <typename Event>
  bool AwaitOne() {
    return AwaitAll<Event>(1);
  }

  // The first of its type; the test has waited for it.
  template <typename Event>
  Event Get() const {
    std::lock_guard lock(mu_);
    for (const auto& notify : heard_) {
      if (const auto* event = std::get_if<Event>(&notify.event)) return *event;
    }
    return {};
  }

  Heard heard() const {
    std::lock_guard lock(mu_);
    return heard_;
  }
  // Whether it has ever been told on this one.
  bool heard_on(std::thread::id thread) const {
    std::lock_guard lock(mu_);
    return threads_.contains(thread);
  }
  int calls() const {
    std::lock_guard lock(mu_);
    return calls_;
  }

  template <typename Event>
  static size_t Count(const Heard& heard) {
    size_t n = 0;
    for (const auto& notify : heard) n += std::holds_alternative<Event>(notify.event);
    return n;
  }

 private:
  mutable std::mutex mu_;
  std::condition_variable changed_;
  Heard heard_;
  int calls_ = 0;
  size_t sent_ = 0;  // how many were heard before the last Send
  std::set<std::thread::id> threads_;
};

inline core::Acquire AcquireOf(core::SessionId session, core::RequestId request, const std::string& key) {
  core::Acquire acquire;
  acquire.session = session;
  acquire.request = request;
  acquire.name = core::LockName::Encode("test", key);
  for (size_t i = 0; i < 8; ++i) {
    acquire.owner[i] = static_cast<uint8_t>(session >> (8 * i));
    acquire.owner[8 + i] = static_cast<uint8_t>(request >> (8 * i));
  }
  acquire.ttl = std::chrono::minutes(10);
  acquire.on_disconnect = core::OnDisconnect::kRelease;
  return acquire;
}

}  // namespace distlock::shard
