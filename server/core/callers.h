// SPDX-License-Identifier: Apache-2.0
//
// The callers of acquires, up to their grant or refusal: from a request to its waiter, and from the waiter's fate to
// what each caller is told, but for a grant. Several callers share a waiter when a detached request is repeated, or
// when a session asks again for what it may have more than once. The callers of a part of a bundle are the bundle's.
//
// Thread: the shard's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "core/claims.h"
#include "core/core_context.h"
#include "core/part.h"
#include "core/queues.h"
#include "core/records.h"
#include "core/sessions.h"

namespace distlock::core {

class Bundles;
class Waiters;

class Callers final : public Part {
 public:
  Callers(CoreContext& core, Claims& claims, Sessions& sessions, Queues& queues, Waiters& waiters, Bundles& bundles)
      : core_(core), claims_(claims), sessions_(sessions), queues_(queues), waiters_(waiters), bundles_(bundles) {}

  void Handle(Acquire& in);
  // One more caller waits for the same answer.
  void Join(Waiter& waiter, const Acquire& in);

  // ---- who waits
  // The caller that an acquire stands for.
  Caller CallerFor(const Acquire& in) const;
  // Never empty while the waiter exists.
  static std::vector<Caller>& CallersOf(Waiter& waiter);
  // The caller that is told of its place.
  static Recipient RecipientOf(Waiter& waiter);
  // When `caller` is refused if nothing happens before.
  Instant EndOf(const Waiter& waiter, const Caller& caller) const;

  // ---- who is turned away. The store is told when nobody is left, and the waiter is gone.
  void Refuse(Waiter& waiter, const Refused& refused);
  // Refuses the callers whose time is up. False: the waiter is gone.
  bool RefuseOverdue(Waiter& waiter);
  // Refuses those who do not wait. `look_in`: when to look again. False: the waiter is gone.
  bool TurnAwayOneTries(Waiter& waiter, const std::vector<HolderView>& holders, std::optional<Duration> look_in,
                        uint32_t queue_length, Duration held_off);
  // Refuses the callers of a session's request.
  void Cancel(Waiter& waiter, RequestId request);
  void OnStreamEnd(SessionId session) override;
  void RefuseAllDetached(const Refused& refused);
  // Tells one caller. The waiter still has it.
  void TellRefused(const Waiter& waiter, const Caller& caller, Refused refused);
  // The refusal of a caller whose time is up. `answered`: the store has said once that it waits; `trouble`: why it
  // could not answer since.
  Refused WhyItEnds(const Caller& caller, const LockName& name, bool answered, const std::string& trouble) const;
  // The waiter ends: nobody waits for it any more.
  void Unlist(const Waiter& waiter);

  size_t Check() const override;

 private:
  bool Reenter(Session& session, const Acquire& in);
  bool JoinRepeat(const Acquire& in);
  void EndOtherTry(const Acquire& in);
  void Unlist(const Waiter& waiter, const Recipient& recipient);
  Instant Patience(const Waiter& waiter, const Caller& caller) const;
  template <typename Over, typename Why>
  bool TurnAway(Waiter& waiter, Over over, Why why);
  void CheckAll(const Waiter& waiter) const;

  CoreContext& core_;
  Claims& claims_;
  Sessions& sessions_;
  Queues& queues_;
  Waiters& waiters_;
  Bundles& bundles_;
  absl::btree_map<SessionId, Waiter*> detached_;  // calls that wait for a detached grant
};

}  // namespace distlock::core
