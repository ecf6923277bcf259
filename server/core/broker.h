// SPDX-License-Identifier: Apache-2.0
//
// The core of one shard: every decision about leases, waiters, renewals, sessions and deadlines. Pure: no IO, clock,
// threads, logging or randomness but the seed. The store decides who holds; the core decides who waits here, until
// when, and what may be promised to whom. This class routes inputs, due deadlines and replies of the store to its
// parts, each of which owns its state and has a header of its own.
//
// An acquire goes from Callers to Waiters, which sends an attempt. Its answer, a notice, a tend, or the reply to a
// command that made room comes to Grants, which makes a lease of it: Leases renews it, and Sessions tells the request.
// A release leaves Leases for PendingReleases at once: a stream that breaks later finds nothing of it, and the release
// goes on until the store confirms it.
//
// Thread: one, the shard's. Time must not go backwards between calls.
// Invariants:
//  1. A recipient gets exactly one final answer per request: Refused, or Granted and later at most one of Released,
//     Lost and, when a Cancel crossed the grant, Refused(kCancelled).
//  2. A promise never passes the lease's deadline D = sent + ttl - margin (the broker's deadline in proto/promises.md);
//     nothing is freed early while a promise lasts.
//  3. Whatever may exist in the store without a record here is a pending release until the store has confirmed it.
//  4. No lease is renewed, and no grant accepted, at or after its D.
#pragma once

#include <string>
#include <vector>

#include "core/adoptions.h"
#include "core/broker_config.h"
#include "core/broker_load.h"
#include "core/bundles.h"
#include "core/callers.h"
#include "core/claims.h"
#include "core/core_context.h"
#include "core/downgrades.h"
#include "core/drain.h"
#include "core/force_calls.h"
#include "core/grants.h"
#include "core/leases.h"
#include "core/messages.h"
#include "core/pending_releases.h"
#include "core/queues.h"
#include "core/renew_calls.h"
#include "core/sessions.h"
#include "core/stream_ends.h"
#include "core/waiters.h"
#include "core/wants.h"
#include "core/watches.h"

namespace distlock::core {

class Broker {
 public:
  explicit Broker(const BrokerConfig& config);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // Expires all that is due at `now`, then handles the input. Appends to `effects`; their order is the order to perform
  // them in. A store command counts as sent at `now`: it must be handed to the store at once.
  void Step(Instant now, Input&& input, std::vector<Effect>& effects);

  // When Step is wanted next at the latest; kNever: no need.
  Instant NextDeadline() const { return core_.timers.Earliest(); }

  // Crashes if an invariant of any part is broken. Looks at every record: for tests, after each Step.
  void Check() const;

  BrokerStats Stats() const;
  // Looks at every lease and queue. `namespaces`: escaped; those that are told of apart.
  BrokerLoad Load(const std::vector<std::string>& namespaces) const;

 private:
  // broker.cc: to which part an input, a due deadline or a reply goes
  void Handle(const Tick&) {}
  void Handle(const OpenSession& in) { sessions_.Open(in, drain_.deadline()); }
  void Handle(Acquire& in) { callers_.Handle(in); }
  void Handle(AcquireAll& in) { bundles_.Handle(in); }
  void Handle(const Cancel& in);
  void Handle(const Release& in) { leases_.Handle(in); }
  void Handle(Renew& in) { renew_calls_.Handle(in); }
  void Handle(const WatchLock& in) { watches_.Handle(in); }
  void Handle(const Heartbeat& in) { sessions_.Handle(in); }
  void Handle(Downgrade& in) { downgrades_.Handle(in); }
  void Handle(Adopt& in) { adoptions_.Handle(in); }
  void Handle(ForceRelease& in) { force_calls_.Handle(in); }
  void Handle(const StoreUp& in);
  void Handle(const StoreDown& in);
  void Handle(const StoreClockStep& in);
  void Handle(const ChannelUp&);
  void Handle(const GrantNotice& in) { grants_.Handle(in); }
  void Handle(const ChangeNotice& in) { watches_.Handle(in); }
  void Handle(const ForceNotice& in) { force_calls_.Handle(in); }
  void Handle(const WantedNotice& in) { wants_.Handle(in); }
  void Handle(StoreReply& in);
  void Handle(const Goodbye& in) { stream_ends_.Handle(in); }
  void Handle(const StreamEnded& in) { stream_ends_.Handle(in); }
  void Handle(const HolderDied& in) { stream_ends_.Handle(in); }
  void Handle(const Drain& in) { drain_.Handle(in); }
  void ExpireDue();
  void RenewAll();
  void AskReleased();

  CoreContext core_;
  // The parts refer to each other: see part.h for who may call whom. First those that others know by a base class.
  Grants grants_{core_, claims_, releases_, sessions_, wants_, leases_, queues_, waiters_, bundles_};
  Bundles bundles_{core_, claims_, releases_, sessions_, wants_, leases_, waiters_, callers_};
  StreamEnds stream_ends_{core_, sessions_, leases_, waiters_, bundles_, parts_};
  Claims claims_{core_};
  Queues queues_{core_, wants_, grants_};
  PendingReleases releases_{core_, claims_, queues_};
  Sessions sessions_{core_, stream_ends_};
  Wants wants_{core_, claims_, sessions_};
  Leases leases_{core_, claims_, sessions_, wants_, bundles_, releases_};
  Callers callers_{core_, claims_, sessions_, queues_, waiters_, bundles_};
  Waiters waiters_{core_, claims_, releases_, queues_, wants_, grants_, callers_};
  Watches watches_{core_};
  RenewCalls renew_calls_{core_, claims_};
  Downgrades downgrades_{core_, claims_, sessions_};
  Adoptions adoptions_{core_, claims_, sessions_, wants_, leases_, releases_};
  ForceCalls force_calls_{core_, claims_, leases_, releases_};

  // All that hear of the end of a stream, or keep a drain from ending. In the order in which they hear that the store
  // can be asked again.
  const std::vector<Part*> parts_{&callers_,     &waiters_,    &bundles_,   &releases_,    &queues_, &watches_,
                                  &renew_calls_, &downgrades_, &adoptions_, &force_calls_, &wants_};
  BrokerDrain drain_{core_, stream_ends_, sessions_, leases_, callers_, bundles_, watches_, parts_};
};

}  // namespace distlock::core
