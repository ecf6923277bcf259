// SPDX-License-Identifier: Apache-2.0
//
// I7, where the store can be observed: a lock that no client believes in any more is free in bounded time.
#include <algorithm>

#include "history/checks.h"

namespace distlock::sim {
namespace {

// When the peers of `client`, which died at `at`, could notice its death: a dead machine sends no RST.
int64_t DeathHeard(const Index& index, int32_t client, int64_t at) {
  int64_t heard = at;
  for (const Trouble& trouble : index.troubles) {
    const bool death = trouble.kind == FaultKind::kClientKilled && trouble.actor == client;
    if (death && trouble.from <= at && at <= trouble.until) heard = std::max(heard, trouble.until);
  }
  return heard;
}

// When the peers of `client` notice at the latest that it left at `at`: its connections may be broken or silent.
int64_t BreakHeard(const Index& index, int32_t client, int64_t at) {
  int64_t heard = at;
  for (const Trouble& trouble : index.troubles) {
    const bool of_links = trouble.kind == FaultKind::kLinkReset || trouble.kind == FaultKind::kLinkSilent ||
                          trouble.kind == FaultKind::kLinkOneWay;
    if (of_links && trouble.actor == client && trouble.from <= at) heard = std::max(heard, trouble.until);
  }
  return heard;
}

struct Bound {
  int64_t at;
  const char* why;
};

// Whether brokers and their store survive the fault with all they know, and reach each other as soon as it is over.
bool LeavesBrokersWell(FaultKind kind) {
  switch (kind) {
    case FaultKind::kClientKilled:
    case FaultKind::kClientPaused:
    case FaultKind::kClientClock:
    case FaultKind::kLinkReset:
    case FaultKind::kChannelLost:
    case FaultKind::kNoticesLost:
    case FaultKind::kScriptsFlushed:
      return true;
    default:
      return false;
  }
}

// When the last connection that matters to this lease and broke in [from, until] was found to be broken. kForEver:
// another fault happened, so that the broker that requested the lock may be gone or unable to release it.
int64_t ReconnectedAt(const Index& index, const LeaseTerms& terms, int64_t from, int64_t until) {
  int64_t latest = from;
  for (const Trouble& trouble : index.troubles) {
    if (trouble.from > until) break;
    if (trouble.until + index.history.recovery_ns < from) continue;
    if (!LeavesBrokersWell(trouble.kind)) return kForEver;
    const bool others = trouble.actor >= 0 && trouble.actor != terms.client &&
                        index.history.actors[static_cast<size_t>(trouble.actor)].kind == Actor::Kind::kClient;
    if (others) continue;
    latest = std::max(latest, trouble.until);
  }
  return latest;
}

// When the client of this lease began to be paused for longer than a validity; kNotSeen: never while it held the lock.
int64_t StoodStillAt(const Index& index, const Tenure& tenure, int64_t freed) {
  for (const Trouble& trouble : index.troubles) {
    if (trouble.kind != FaultKind::kClientPaused || trouble.actor != index.TermsOf(tenure).client) continue;
    const bool had_it = trouble.from >= tenure.told && trouble.from < freed;
    if (had_it && trouble.until - trouble.from > index.history.validity_ns + index.Slack(freed)) return trouble.from;
  }
  return kNotSeen;
}

// Counts from the end of belief, or from the grant if no client ever received it.
Bound BoundOf(const Index& index, const Tenure& tenure, int64_t freed) {
  const LeaseTerms& terms = index.TermsOf(tenure);
  const Fate& fate = index.fates[static_cast<size_t>(tenure.lease)];
  const int64_t over = std::max({tenure.took, tenure.took_again, tenure.until, std::min(tenure.ended, freed)});
  const int64_t slack = index.Slack(freed);
  if (terms.together && tenure.told == kNotSeen && fate.answered == kNotSeen)
    return {freed, "while others are waited for"};
  if (index.history.calm && !terms.detached && tenure.told == kNotSeen && fate.answered != kNotSeen) {
    // The broker may have sent the grant to a client that had just left, and keeps the promise in it.
    const int64_t promise = (terms.freed_by_promise ? index.history.validity_ns : terms.ttl_ns) + terms.lock_delay_ns;
    return {std::max(over, fate.answered) + promise + slack, "after nobody waited for it any more"};
  }
  const bool once = tenure.told != kNotSeen && tenure.next < 0 && tenure.took_again == kNotSeen;
  if (fate.released != kNotSeen && once) {
    return {std::max(over, fate.released) + slack, "after its release was confirmed"};
  }
  if (terms.freed_by_promise && terms.by_heartbeat && tenure.told != kNotSeen) {
    const int64_t stood = StoodStillAt(index, tenure, freed);
    if (stood != kNotSeen && index.TroubledUntil(freed, terms.client) <= stood) {
      return {stood + index.history.validity_ns + terms.lock_delay_ns + slack,
              "a validity and its lock_delay after its client stood still"};
    }
  }
  // Only the client failed, so its broker frees the lock.
  const bool client_left = tenure.ended != kNotSeen && tenure.why != EndedWhy::kLost;
  if (terms.freed_by_promise && client_left && index.TroubledUntil(freed, terms.client) <= over) {
    // The client of a Hold sends nothing that its broker could miss.
    const int64_t left = terms.by_heartbeat ? over : BreakHeard(index, terms.client, over);
    const int64_t heard = tenure.why == EndedWhy::kClientDied ? DeathHeard(index, terms.client, tenure.ended) : left;
    return {std::max(over, heard) + index.history.validity_ns + terms.lock_delay_ns + slack,
            "a validity and its lock_delay after its client's end"};
  }
  if (terms.freed_by_promise && tenure.told == kNotSeen && fate.answered != kNotSeen) {
    const int64_t reconnected = ReconnectedAt(index, terms, fate.asked, freed);
    if (reconnected != kForEver) {
      const int64_t known = std::max({over, fate.answered, reconnected});
      return {known + index.history.give_back_ns + index.history.validity_ns + terms.lock_delay_ns,
              "when its broker had found that nobody waited for it any more"};
    }
  }
  const int64_t key = terms.ttl_ns + terms.lock_delay_ns + index.WentBack(tenure.took, freed);
  return {std::max(over, index.TroubledUntil(freed)) + index.history.validity_ns + key + slack,
          "a ttl and its lock_delay after the end of belief"};
}

}  // namespace

void CheckRecovery(const Index& index, Report& report) {
  if (!index.sees_store) return;
  const int64_t last = std::min(index.end, index.quiet);
  for (const Tenure& tenure : index.tenures) {
    if (tenure.took == kNotSeen) continue;
    const bool never = tenure.freed == kNotSeen;
    const int64_t freed = never ? last : tenure.freed;
    const Bound bound = BoundOf(index, tenure, freed);
    if (freed <= bound.at) continue;
    report.Add("I7", tenure.lock, {tenure.lease}, freed,
               "nobody believed that " + report.Lease(tenure.lease) + " (token " + std::to_string(tenure.token) +
                   ") has " + report.Lock(tenure.lock) + " after " + Report::At(std::max(tenure.took, tenure.until)) +
                   "; it should have been free at " + Report::At(bound.at) + ", " + bound.why + ", but was " +
                   (never ? "never" : "only at " + Report::At(freed)));
  }
}

}  // namespace distlock::sim
