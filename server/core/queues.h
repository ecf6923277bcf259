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
#include "core/part.h"
#include "core/records.h"
#include "core/wants.h"

namespace distlock::core {

// The waiters of one lock in this broker; tended so that the store knows this broker lives.
struct LocalQueue : PartRecord {
  explicit LocalQueue(Part& of) : PartRecord(of) {}
  LockName name;
  absl::btree_map<uint64_t, Waiter*> waiters;  // by place: the preferred first, else in order of arrival here
  std::vector<HolderView> holders;             // as last seen, for those who time out
  Instant held_off_until{};                    // as last seen: until then no holder is in the way, but the hold-off
  bool only_exclusive = true;                  // no waiter here has ever wanted it in another mode
  uint64_t asked_from = 0;                     // the next tend asks for the waiters from this place on, after the first
  uint64_t seen_as_of = 0;                     // of the last answer that all of them wait, but for the holder
  Instant seen_sent{};                         // before that answer's command was sent
  OpId op = 0;
};

class Queues final : public PartOf<LocalQueue> {
 public:
  // `answers_to`: the part that gets the answers to tends.
  Queues(CoreContext& core, Wants& wants, Part& answers_to) : core_(core), wants_(wants), answers_to_(answers_to) {}

  void Join(Waiter& waiter);
  void Leave(Waiter& waiter);
  void Tend(LocalQueue& queue);
  void TendAll();
  void OnStoreUp() override { TendAll(); }
  void OnTimer(LocalQueue& queue) override { Tend(queue); }
  // The answer to the tend `id`; null: it failed. Returns the waiters whose places the store has forgotten, in the
  // order in which they had them.
  std::vector<Waiter*> OnTended(const Op& op, OpId id, const TendDone* done);
  // All waiters here: of each queue in the order of their places.
  std::vector<Waiter*> Everybody() const;
  // A lock is blocked, or free for a waiter of this broker that comes to take it.
  void OnBlockNotice(const GrantNotice& in);
  // The lock becomes free without any notice: if anybody here waits for it, asks the store about it at `at` or earlier.
  void LookBy(const LockName& name, Instant at);

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
  void OnSeen(LocalQueue& queue, Instant sent, const TendDone& done);

  CoreContext& core_;
  Wants& wants_;
  Part& answers_to_;
  absl::btree_map<LockName, std::unique_ptr<LocalQueue>> queues_;
};

}  // namespace distlock::core
