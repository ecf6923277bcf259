// SPDX-License-Identifier: Apache-2.0
#include "rpc/messages/command_book.h"

#include <utility>

namespace distlock::rpc {

void CommandBook::AddAcquire(core::RequestId id, const core::LockName& name, const core::OwnerId& owner, int shard) {
  Entry& entry = entries_[id];
  entry.owner = owner;
  entry.name = std::make_unique<core::LockName>(name);
  entry.shard = static_cast<uint8_t>(shard);
  ++acquires_;
  ++waiting_;
  if (by_owner_) by_owner_->emplace(owner, id);
}

void CommandBook::AddRelease(core::RequestId id, core::RequestId target, int shard) {
  Entry& entry = entries_[id];
  entry.target = target;
  entry.shard = static_cast<uint8_t>(shard);
  entry.is_release = true;
}

std::optional<int> CommandBook::ShardOf(core::RequestId acquire) const {
  const auto found = entries_.find(acquire);
  if (found == entries_.end() || found->second.is_release) return std::nullopt;
  return found->second.shard;
}

bool CommandBook::IsWaiting(core::RequestId acquire) const {
  const auto found = entries_.find(acquire);
  return found != entries_.end() && found->second.name != nullptr;
}

core::RequestId CommandBook::AcquireOf(const core::OwnerId& owner) {
  if (!by_owner_) {
    by_owner_.emplace();
    for (const auto& [id, entry] : entries_) {
      if (!entry.is_release) by_owner_->emplace(entry.owner, id);
    }
  }
  const auto found = by_owner_->find(owner);
  return found == by_owner_->end() ? 0 : found->second;
}

void CommandBook::Forget(core::RequestId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  if (!found->second.is_release) {
    --acquires_;
    if (found->second.name != nullptr) --waiting_;
    if (by_owner_) by_owner_->erase(found->second.owner);
  }
  entries_.erase(found);
}

core::LockName CommandBook::OnEvent(core::RequestId id, const core::Event& event) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return {};
  Entry& entry = found->second;
  const auto* refused = std::get_if<core::Refused>(&event);
  if (std::holds_alternative<core::Granted>(event)) {
    if (entry.name != nullptr) --waiting_;
    entry.name.reset();
  } else if (refused != nullptr && !entry.is_release) {
    const auto name = std::move(entry.name);
    if (name != nullptr) --waiting_;
    Forget(id);
    if (name != nullptr) return std::move(*name);
  } else if (refused != nullptr || std::holds_alternative<core::Released>(event) ||
             std::holds_alternative<core::Downgraded>(event)) {
    // The core goes on repeating an unconfirmed release in the background, so its lease has ended, too.
    const core::RequestId target = entry.target;
    const bool over = refused == nullptr || refused->reason == core::RefusalReason::kStoreUnavailable;
    Forget(id);
    if (over && target != 0) Forget(target);
  } else if (std::holds_alternative<core::Lost>(event)) {
    Forget(id);
  }
  return {};
}

}  // namespace distlock::rpc
