// SPDX-License-Identifier: Apache-2.0
//
// Judges the votes of a candidate. Pure; lua/README.md and ../README.md have the argument.
//
// J1  q votes under one token, young enough: it has the lock.
// J2  q votes under several tokens, or too old: the greatest is to be confirmed by q servers.
// J3  fewer, and somebody with an earlier place, or with q votes, stands against it, or waits in front of a reader
//     among readers: it yields its votes. Beside q votes they decide nothing, so nobody gets them instead.
// J4  fewer, and nobody does, as far as answers show that are not older than the votes: it keeps them and asks again.
// A single try waits for nobody: what it cannot get within a few rounds is held.
#pragma once

#include "store/redlock/ballot/candidate.h"

namespace distlock::store::ballot {

// The judge's knowledge of the servers.
struct ServersView {
  size_t nodes = 3;
  size_t quorum = 2;
  uint32_t up = 0;      // bits: can be reached
  uint32_t counts = 0;  // bits: votes count
  Instant now{};
  Instant patience{};  // of the round: with q answers the others are not waited for any longer
  Instant silence{};   // of the round: who has not answered by then is silent
  Duration margin{};   // between the candidate's belief and the end of its keys
  Duration enough{};   // of belief that a grant by notice must leave
  uint64_t proposal = 0;
};

struct Verdict {
  enum class Kind : uint8_t {
    kAwait,        // answers
    kGrant,        // J1: `token`, believed from `from`
    kConfirm,      // J2: `token`
    kYield,        // J3
    kKeep,         // J4
    kWaitForTurn,  // no votes, nothing to do: it waits
    kRefuse,       // one try: it is held
    kSplit,        // one try: nobody has it, give all back and try again
    kNoQuorum,     // too few servers answer
    kLate,         // too many servers have got it too late
    kFail,         // too many servers refuse, as `node` does
  };
  Kind kind = Kind::kAwait;
  uint64_t token = 0;
  Instant from{};
  NodeIndex node = 0;
  std::optional<OwnerId> holder;  // kYield: who has q votes, if anybody; zeros: a lock_delay
};

Verdict Judge(const Candidate& candidate, const ServersView& servers);

// From when max_hold counts, as most servers have it. `began`: no earlier at q of those with the vote under `token`,
// where it is fresh, or, of token 0, with any vote. `began_by`: not later at any of them.
struct HoldStart {
  Instant began{};
  Instant began_by{};
};
HoldStart HoldStartOf(const Candidate& candidate, uint64_t token, size_t quorum);

// So many servers that count have answered in this round that they have not got the grant that the core was told, that
// no holder can believe in it.
bool NobodyBelieves(const Candidate& candidate, const ServersView& servers);
// The round has nothing to wait for.
bool IsRoundOver(const Candidate& candidate, const ServersView& servers);
// Enough servers have it queued, or have voted for it, that it has a place.
bool HasPlace(const Candidate& candidate, const ServersView& servers);
// Why servers that answered gave no vote, behind "; ", for people; "": none refused.
std::string TroubleOf(const Candidate& candidate);

}  // namespace distlock::store::ballot
