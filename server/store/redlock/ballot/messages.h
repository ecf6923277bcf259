// SPDX-License-Identifier: Apache-2.0
//
// Messages between the ballot and the servers. Values.
//
// A vote is a hold of the lock at one server; q votes of the N configured servers are a grant. A place is the same at
// all servers: the moment when the waiter came, in microseconds by the median of the servers' clocks, and far below
// zero for the preferred. Waiters with equal places stand in the order of their owners.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/messages.h"
#include "store/redis/server_clock.h"

namespace distlock::store::ballot {

using core::Duration;
using core::Instant;
using core::LockName;
using core::OwnerId;

using NodeIndex = size_t;
inline constexpr size_t kMaxNodes = 9;
using NodeOp = uint64_t;  // one command to one server; never reused

using Place = int64_t;
// Added to the place of the preferred.
inline constexpr Place kPreferredShift = -(Place{1} << 52);
// The place as it would be if it were preferred as `like` is, or is not.
inline Place SameShift(Place place, Place like) {
  if ((place < 0) == (like < 0)) return place;
  return like < 0 ? place + kPreferredShift : place - kPreferredShift;
}
// For a holder whose place is not known: earlier than any other.
inline constexpr Place kFirstPlace = kPreferredShift * 2;

// One owner and one lock.
struct Claim {
  LockName name;
  OwnerId owner{};

  friend auto operator<=>(const Claim&, const Claim&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Claim& claim) {
    return H::combine(std::move(h), claim.name, claim.owner);
  }
};

// When a grant was made, by the median of the clocks, which its token is taken from: each server has another stamp.
inline core::StoreTime SinceOf(uint64_t token) { return {static_cast<int64_t>(token)}; }

// Names what was asked for: what a candidate gets has the mark under which it has asked. From the first mark to the
// last one; none by default. Each candidate at this broker has a greater one than any before.
struct Marks {
  uint64_t first = 0;
  uint64_t last = 0;

  static Marks Of(uint64_t mark) { return {mark, mark}; }
  bool empty() const { return first == 0 && last == 0; }
  void Add(const Marks& other) {
    if (other.empty()) return;
    *this = empty() ? other : Marks{std::min(first, other.first), std::max(last, other.last)};
  }
};

// An owner's wish for a lock, as each server is told it.
struct Spec {
  LockName name;
  OwnerId owner{};
  core::Want want;
  Duration ttl{};
  Duration lock_delay{};
  Duration max_hold{};
  Duration min_hold{};
  std::string info;
  Place place = 0;
  uint64_t mark = 0;

  Claim claim() const { return {name, owner}; }
};

// ---- Commands to one server. `least_token`: no hand-off in this call gives a smaller token -------------------------

struct AskVote {
  Spec spec;
  Instant run_before = core::kNever;  // at or after it the server does nothing
  bool wait = false;
  bool again = false;  // as in core::StoreAcquire
  uint64_t least_token = 0;
  Marks marks;         // of all that the candidate has asked for
  uint64_t found = 0;  // the token under which q servers have the lock for another candidate of the owner; 0: none
};

struct ConfirmVote {
  LockName name;
  OwnerId owner{};
  Marks marks;  // of the vote; one with another mark stays as it is
  uint64_t token = 0;
  Duration life{};      // ttl and lock_delay
  Duration promised{};  // max_hold, if it has one, does not end the hold before
};

struct JoinGrant {
  Spec spec;
  uint64_t token = 0;
  uint64_t greatest = 0;  // that a vote of the owner's own may have there; one under a later token stays as it is
  Instant run_before{};
};

struct YieldVote {
  Spec spec;
  uint64_t token = 0;
  bool hands_on = true;  // to waiters with earlier places; else the lock stays free there
  uint64_t least_token = 0;
  Marks marks;  // of the vote; one with another mark stays as it is
};

// Ends what is named by `token` or by `marks`, and nothing else: however late it comes, what the owner was given by a
// later request stays.
struct ReleaseNamed {
  LockName name;
  OwnerId owner{};
  uint64_t token = 0;  // a grant that is over: what is held under it or an earlier one
  Marks marks;         // what is held with one of these, and a place with one of these in this broker's queue
  Duration block{};
  bool ends_min_hold = true;  // as in core::StoreRelease
  bool keep_grant = false;
  uint64_t least_token = 0;
};

// Tend, renew, watch, downgrade, force, adopt and wanted, as one server alone would get them.
struct Plain {
  core::StoreCommand command;
  uint64_t least_token = 0;  // 0: the command hands nothing on
};

using NodeCommand = std::variant<AskVote, ConfirmVote, JoinGrant, YieldVote, ReleaseNamed, Plain>;

// ---- Answers of one server -----------------------------------------------------------------------------------------

struct Voted {
  uint64_t token = 0;
  core::StoreTime since;
  Duration held_for{};
  std::optional<Duration> hold_left;  // by its max_hold; unset: it has none, or was given just now
  bool is_found = false;              // another candidate of the same owner, maybe at another broker, has it
};

// No vote: somebody has the lock at this server, or comes first.
struct NotVoted {
  bool queued = false;  // it has a place there now, which is `place`
  Place place = 0;
  Place tail = 0;                  // of the last of its kind that was there before; 0: none, or it was there already
  std::optional<core::Mode> mode;  // of the holders
  std::vector<core::HolderView> holders;  // at most 16
  uint32_t position = 0;
  uint32_t queue_length = 0;
  std::optional<Duration> left;
};

struct Confirmed {};
struct TooLow {
  uint64_t last = 0;
};
struct NotHeld {};
struct Joined {};
struct Conflict {};

// For yield and release. `next`: waiters of this broker that got the server's vote.
struct GaveBack {
  bool was_holder = false;
  bool was_waiter = false;
  bool look = false;
  Duration blocked_for{};
  std::vector<core::HolderView> next;
};

using Outcome = std::variant<core::StoreUnknown, core::StoreFailed, core::AcquireLate, core::AcquireQueueFull,
                             core::AcquireMismatch, Voted, NotVoted, Confirmed, TooLow, NotHeld, Joined, Conflict,
                             GaveBack, core::TendDone, core::RenewDoneBatch, core::WatchDone, core::DowngradeDone,
                             core::ForceDone, core::AdoptDone, core::WantedDone>;

// ---- Inputs --------------------------------------------------------------------------------------------------------

struct Tick {};

// Commands can be sent. `forgot`: another run of the server, whose data are not those of before. `clock`: known.
struct NodeUp {
  NodeIndex node = 0;
  bool forgot = false;
  ServerClock clock;
};
struct NodeDown {
  NodeIndex node = 0;
  std::string cause;
};
// Its votes count by this, besides its clock.
struct NodeFitness {
  NodeIndex node = 0;
  bool held_off = false;     // it may have forgotten a lock whose holder still believes
  Instant held_off_until{};  // with held_off; kNever: not known yet
  std::string misfit;        // why it is none of the configured servers; "": it is
};
// Its clock was set by so much, and is as it is now.
struct NodeClockStep {
  NodeIndex node = 0;
  Duration by{};
  ServerClock clock;
};
// The answer to a command; exactly one for each. `time`: of the server, us = 0: not known.
struct NodeReply {
  NodeOp op = 0;
  Outcome outcome;
  core::StoreTime time;
};
// The server gave its vote to a waiter of this broker, or told that one may come for it. `ahead`: by how much the
// notice's stamp is later than what the server's clock could show now, by all that is known of it (ServerClock::Ahead).
struct NodeNotice {
  NodeIndex node = 0;
  core::GrantNotice notice;
  Duration ahead{};
};

using Input =
    std::variant<Tick, core::StoreCommand, NodeUp, NodeDown, NodeFitness, NodeClockStep, NodeReply, NodeNotice>;

// ---- Effects -------------------------------------------------------------------------------------------------------

// Counts as sent when the step was made: it must be handed to the server at once, and those to one server in order.
struct SendTo {
  NodeIndex node = 0;
  NodeOp op = 0;
  NodeCommand command;
};
struct TellCore {
  core::Input input;
};

using Effect = std::variant<SendTo, TellCore>;

}  // namespace distlock::store::ballot
