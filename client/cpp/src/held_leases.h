// SPDX-License-Identifier: Apache-2.0
//
// The leases that the program has, until their deadlines pass or something else ends them, and their way back to the
// broker. Pure; guarded by the mutex of the Engine.
//
// A lease that ends here is released in each session that may have it. What no session has answered is left over for
// the next one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "lease.h"
#include "sessions.h"

namespace distlock::internal {

Refusal HasEnded();

class HeldLeases {
 public:
  HeldLeases(const TableOptions& options, Sessions& sessions) : options_(options), sessions_(sessions) {}

  // The program has it from now on.
  void Add(const LeasePtr& lease);
  LeasePtr Find(int64_t id) const;
  // Calls act(lease) with each, which may end it.
  template <class Act>
  void ForEach(Act act) const {
    for (auto it = held_.begin(); it != held_.end();) act(LeasePtr((it++)->second));
  }
  bool empty() const { return held_.empty(); }
  // Whether this session has any of them.
  bool Has(const Link& link) const;

  // The holds of one reentrant lease have this in common; another lease has a value of its own.
  using Grant = std::tuple<bool, int64_t, std::string_view, std::string_view>;
  static Grant GrantOf(const Lease& lease);
  // Those of a reentrant lease that are still held; of another one, itself.
  Leases HoldsOf(const LeasePtr& lease) const;
  // Whether the owner of `lock` holds it through another session than the present one: it would wait for itself there.
  bool IsHeldElsewhere(const v1::LockSpec& lock) const;

  // Gives it back. `callback`, if any, hears the broker's answer.
  void Release(const LeasePtr& lease, ReleaseCallback callback, int64_t now_ns, Effects& fx);
  // Ends it for good. `lease`: not the one in this table. `gone`: its session has it no more.
  void End(const LeasePtr& lease, EndCause cause, std::string message, bool gone, Effects& fx,
           ReleaseCallback callback = nullptr);
  // Ends the lease if its deadline has passed. True: it is still held.
  bool Notice(const LeasePtr& lease, int64_t now_ns, Effects& fx);
  // Ends all those.
  void Sweep(int64_t now_ns, Effects& fx);
  void SetDeadline(Lease& lease, int64_t deadline_ns);
  // It was adopted under this id.
  void Rename(const LeasePtr& lease, int64_t id);
  // Has others see what was asked for, or tells those who asked why not.
  static void TellChange(Lease& lease, const std::optional<Refusal>& refusal, Effects& fx);

  // Has this session free a lease that has ended. `acquire_id` 0: names it by its lease_id.
  void SendRelease(Link& link, int64_t acquire_id, const LeasePtr& lease);
  // No session has answered: for the next one.
  void LeaveOver(const LeasePtr& lease, int64_t at_ns);
  Leases leftovers;

  // Has Moves look at that time whether something is to move.
  void MoveAt(int64_t at_ns) { moves_at_ns = std::min(moves_at_ns, at_ns); }

  int64_t ends_at_ns = kNever;   // no lease ends before
  int64_t moves_at_ns = kNever;  // when leases are to be moved
  bool moving = false;           // a lease may be held outside of the present session

 private:
  void OnReleased(const LeasePtr& lease, const Answer& answer, Effects& fx);

  const TableOptions& options_;
  Sessions& sessions_;
  std::map<int64_t, LeasePtr> held_;
};

}  // namespace distlock::internal
