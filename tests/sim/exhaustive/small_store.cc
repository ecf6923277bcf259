// SPDX-License-Identifier: Apache-2.0
#include "exhaustive/small_store.h"

#include <chrono>

#include "core/check.h"
#include "store/redis/script_caller.h"
#include "store/redis/wire_value.h"

namespace distlock::sim {
namespace {

using core::Instant;

constexpr core::Duration kOffset = std::chrono::hours(400'000);
constexpr const char* kBrokerIds[] = {"00000000000000b0", "00000000000000b1"};

int64_t StoreUs(Instant now) {
  return std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch() + kOffset).count();
}

store::LockOptions Options(size_t broker) { return {.broker_id = kBrokerIds[broker]}; }

}  // namespace

const core::LockName& SmallStore::Lock() {
  static const core::LockName name = core::LockName::Encode("default", "job");
  return name;
}

SmallStore::SmallStore()
    : first_(Options(0), clock_), second_(Options(1), clock_), holder_key_(first_.keys().Holder(Lock())) {
  model_.OnChange([this](std::string_view, ChangeKind) { changed_ = true; });
  for (const lua::ScriptSource* script : store::AllScripts()) {
    const store::ReplyPtr reply = Run(0, store::LoadCommand(*script));
    DISTLOCK_CHECK(!store::IsError(*reply));
  }
  for (const size_t broker : {0, 1}) {
    model_.Execute(static_cast<int>(broker) + 100, {"SUBSCRIBE", codec(broker).grant_channel()});
  }
}

void SmallStore::Reset(Instant now, std::function<void(size_t broker, std::string_view payload)> on_notice) {
  model_.Execute(0, {"FLUSHALL"});
  model_.SetClock(StoreUs(now));
  clock_ = store::ServerClock(0);
  clock_.Learn(now, now, {StoreUs(now)});
  model_.OnMessage([on_notice = std::move(on_notice)](int client, std::string_view, std::string_view payload) {
    on_notice(static_cast<size_t>(client) - 100, payload);
  });
}

void SmallStore::SetTime(Instant now) { model_.Advance(StoreUs(now)); }

store::ReplyPtr SmallStore::Run(size_t broker, std::string_view bytes) {
  const Argv argv = ParseCommand(bytes);
  DISTLOCK_CHECK(!argv.empty());
  return model_.Execute(static_cast<int>(broker), argv);
}

std::optional<core::HolderView> SmallStore::Holder() const {
  const auto value = model_.String(holder_key_);
  if (!value) return std::nullopt;
  auto holder = store::ParseHolder(*value, model_.Pttl(holder_key_));
  DISTLOCK_CHECK(holder);
  return holder;
}

size_t SmallStore::Waiters() const { return model_.Zset(first_.keys().Queue(Lock())).size(); }

Instant SmallStore::HolderEnds() const {
  const int64_t pttl_ms = model_.Pttl(holder_key_);
  if (pttl_ms < 0) return core::kNever;
  // The first microsecond after the millisecond of its expiry.
  return Instant(std::chrono::milliseconds(model_.now_us() / 1000 + pttl_ms + 1) - kOffset);
}

std::string SmallStore::KeysLeft() const {
  std::string names;
  for (const KeyFacts& facts : model_.Keys()) {
    if (facts.key != first_.keys().Token(Lock())) names += " " + std::string(facts.key);
  }
  return names;
}

void SmallStore::AddTo(Digest& digest) const {
  for (const KeyFacts& facts : model_.Keys()) {
    digest.Add(facts.key);
    digest.Add(static_cast<uint64_t>(facts.expires_ms.value_or(0)));
    if (const auto value = model_.String(facts.key)) digest.Add(*value);
    for (const auto& [member, score] : model_.Zset(facts.key)) {
      digest.Add(member);
      digest.Add(static_cast<uint64_t>(score));
    }
    for (const auto& [field, value] : model_.Hash(facts.key)) {
      digest.Add(field);
      digest.Add(value);
    }
  }
}

}  // namespace distlock::sim
