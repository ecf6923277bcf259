// SPDX-License-Identifier: Apache-2.0
//
// Held leases that change: their session, because its broker drains, or because its stream broke and the program wants
// them to be resumed; their mode; and what others see of them. session.md, "Moving a lease", has the rules. Pure;
// guarded by the mutex of the Engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "held_leases.h"
#include "requests.h"
#include "sessions.h"

namespace distlock::internal {

class Moves {
 public:
  Moves(const TableOptions& options, Sessions& sessions, HeldLeases& held, Requests& requests)
      : options_(options), sessions_(sessions), held_(held), requests_(requests) {}

  // Makes it a read lock.
  void Downgrade(const LeasePtr& lease, ChangeCallback callback, Effects& fx);
  // Has others see `spec` instead: the session adopts its own lease. Of several that are not answered the newest
  // counts, for all of them.
  void Proclaim(const LeasePtr& lease, SpecPtr spec, ChangeCallback callback, int64_t now_ns, Effects& fx);

  // The link's broker goes down in `time_left`.
  void OnDraining(Link& link, Duration time_left, int64_t now_ns, Effects& fx);
  // The link's broker takes nothing new any more.
  void OnDrains(Link& link, int64_t now_ns);
  // Leaves the present broker, if it drains and another one is known. While the other link still has a stream, of a
  // broker that drains as well, this waits for its end.
  void MoveOn(int64_t now_ns);
  // Asks the present session to adopt all that it does not hold, and to free what nobody could free.
  void Send(int64_t now_ns, Effects& fx);
  // Says goodbye to a former broker that has nothing of this client any more.
  void LeaveWhenEmpty(Link& link);

  // Whether a lease may be believed in after the end of its stream, until its last promise ends. The broker keeps the
  // lock for as long, unless it was told to free it at once.
  bool Survives(const Lease& lease, int64_t now_ns) const;
  // Its session is over, and the last promise is all that it has.
  void Orphan(Lease& lease, const std::string& why);

 private:
  // False: it is told that the lock has ended, or why it cannot change.
  static bool MayChange(const Lease& lease, const char* unable, ChangeCallback& callback, Effects& fx);
  void TellDraining(Duration time_left, Effects& fx) const;
  void Adopt(Link& link, const Leases& holds);
  void FreeLeftovers(Link& link);
  void OnAdopted(Link& link, const LeasePtr& lease, const v1::Grant& grant, int64_t now_ns, Effects& fx);
  void OnNotAdopted(Link& link, const LeasePtr& lease, const Refusal& refusal, int64_t now_ns, Effects& fx);
  void OnShown(Lease& lease, int64_t now_ns, Effects& fx);
  void Stay(const LeasePtr& lease, int64_t now_ns, Effects& fx);
  // Tells the program, once, that the broker of the lease goes and the lease with it.
  void TellOfDrain(const Lease& lease, int64_t now_ns, Effects& fx);
  void SendDowngrades(const LeasePtr& lease);
  void OnDowngraded(const Leases& holds, const std::optional<Refusal>& refusal, int64_t now_ns, Effects& fx);

  const TableOptions& options_;
  Sessions& sessions_;
  HeldLeases& held_;
  Requests& requests_;
};

}  // namespace distlock::internal
