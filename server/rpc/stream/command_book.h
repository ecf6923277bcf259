// SPDX-License-Identifier: Apache-2.0
//
// The ids of one session that are in use: acquires, from the command until the lease's end, and releases and
// conversions that are not answered. It knows which shard each lives on; whether a lock is held is the core's to know.
//
// Not thread-safe: the session's mutex guards it.
#pragma once

#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "core/messages.h"

namespace distlock::rpc {

class CommandBook {
 public:
  bool Has(core::RequestId id) const { return entries_.contains(id); }
  size_t size() const { return entries_.size(); }
  size_t acquires() const { return acquires_; }
  // Of these, how many have no grant yet. Looks at all.
  size_t waiting() const;

  // `id` must not be in use.
  void AddAcquire(core::RequestId id, const core::LockName& name, const core::OwnerId& owner, int shard);
  // `target`: the acquire it gives back, 0 when it is none of this session; also of a conversion.
  void AddRelease(core::RequestId id, core::RequestId target, int shard);

  // The shard of an acquire; nullopt when `id` is none.
  std::optional<int> ShardOf(core::RequestId acquire) const;
  // Whether this acquire has no grant yet.
  bool IsWaiting(core::RequestId acquire) const;
  // The acquire that got this owner id; 0 when none of this session did.
  core::RequestId AcquireOf(const core::OwnerId& owner);

  // What an event for `id` means for the book. Returns the lock's name for a Refused acquire.
  core::LockName OnEvent(core::RequestId id, const core::Event& event);
  // The command was refused before any shard saw it.
  void Forget(core::RequestId id);

 private:
  struct Entry {
    core::OwnerId owner{};
    core::RequestId target = 0;            // of a release
    std::unique_ptr<core::LockName> name;  // of an acquire, until its grant
    uint8_t shard = 0;
    bool is_release = false;
  };

  absl::flat_hash_map<core::RequestId, Entry> entries_;
  size_t acquires_ = 0;
  // Filled at the first release by lease id and kept from then on: most clients release by acquire id.
  std::optional<absl::flat_hash_map<core::OwnerId, core::RequestId>> by_owner_;
};

}  // namespace distlock::rpc
