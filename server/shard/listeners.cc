// SPDX-License-Identifier: Apache-2.0
#include "shard/listeners.h"

#include <utility>

namespace distlock::shard {
namespace {

constexpr size_t kUsual = 8;  // events of a busy session in one turn

}  // namespace

void Listeners::Attach(core::SessionId session, std::shared_ptr<Sink> sink) {
  listeners_[session].sink = std::move(sink);
}

void Listeners::Detach(core::SessionId session) {
  const auto it = listeners_.find(session);
  if (it == listeners_.end()) return;
  if (!it->second.events.empty()) leaving_.push_back(std::move(it->second));
  listeners_.erase(it);
}

bool Listeners::MayHoldMany(core::SessionId session) const {
  const auto it = listeners_.find(session);
  return it != listeners_.end() && it->second.sink->MayHoldMany();
}

void Listeners::Gather(core::Notify&& notify) {
  auto it = listeners_.find(notify.session);
  if (it == listeners_.end()) return;
  auto& events = it->second.events;
  if (events.empty()) {
    addressed_.push_back(notify.session);
    events.reserve(kUsual);
  }
  events.push_back(std::move(notify));
}

void Listeners::Wake(core::SessionId session) {
  const auto it = listeners_.find(session);
  if (it != listeners_.end()) told_.push_back(it->second.sink);
}

void Listeners::Deliver() {
  for (core::SessionId session : addressed_) {
    auto it = listeners_.find(session);
    if (it == listeners_.end() || it->second.events.empty()) continue;  // detached meanwhile
    it->second.sink->OnEvents(shard_, std::exchange(it->second.events, {}));
    told_.push_back(it->second.sink);
  }
  addressed_.clear();
  for (Listener& listener : leaving_) {
    listener.sink->OnEvents(shard_, std::move(listener.events));
    told_.push_back(std::move(listener.sink));
  }
  leaving_.clear();
}

}  // namespace distlock::shard
