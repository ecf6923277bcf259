// SPDX-License-Identifier: Apache-2.0
//
// This broker's waiters in the store's queues. A notice is only a hint: each queue is tended before this broker's slot
// in it ends, and when the holder's ttl does, so a lost notice costs time and never leaves a waiter waiting for ever.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/core_context.h"
#include "core/look_scheduler.h"
#include "core/part.h"
#include "core/records.h"
#include "core/tend_news.h"

namespace distlock::core {

// The waiters of one lock in this broker; tended so that the store knows this broker lives.
struct LocalQueue : PartRecord {
  explicit LocalQueue(Part& of) : PartRecord(of) {}
  LockName name;
  absl::btree_map<uint64_t, Waiter*> waiters;  // by place: the preferred first, else in order of arrival here
  std::vector<HolderView> holders;             // as last seen, for those who time out
  Instant held_off_until{};                    // as last seen: no holder is in the way, but the store's hold-off
  bool only_exclusive = true;                  // no waiter here has ever wanted it in another mode
  uint64_t asked_from = 0;                     // the next tend asks for the waiters from this place on, after the first
  uint64_t seen_as_of = 0;                     // of the last answer that all of them wait, but for the holder
  Instant seen_sent{};                         // before that answer's command was sent
  OpId op = 0;
};

class Queues final : public PartOf<LocalQueue>, public LookScheduler {
 public:
  Queues(CoreContext& core, TendNews& news) : core_(core), news_(news) {}

  void Join(Waiter& waiter);
  void Leave(Waiter& waiter);
  void Tend(LocalQueue& queue);
  void TendAll();
  // The store may have forgotten any of our places: a tend names only a few, and would find the others one by one. Nor
  // may a waiter learn of a grant there by a tend, which does not ask whether another server gives it away (see
  // lua/README.md, hold-off).
  void RejoinAll();
  void OnStoreUp() override { TendAll(); }
  void OnTimer(LocalQueue& queue) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  // A lock is blocked, or free for a waiter of this broker that comes to take it.
  void OnBlockNotice(const GrantNotice& in);
  void LookBy(const LockName& name, Instant at) override;

  // Null: no waiter of this broker stands in the queue of that lock.
  LocalQueue* Find(const LockName& name) const;
  size_t size() const { return queues_.size(); }
  size_t Check() const override;
  template <typename Look>
  void ForEach(Look look) const {
    for (const auto& [name, queue] : queues_) look(*queue);
  }

 private:
  std::vector<OwnerId> WhomToAskFor(LocalQueue& queue) const;

  CoreContext& core_;
  TendNews& news_;
  absl::btree_map<LockName, std::unique_ptr<LocalQueue>> queues_;
};

}  // namespace distlock::core
