// SPDX-License-Identifier: Apache-2.0
//
// An owner that asks for a lock, waits for it, or has it: what each server said of it. Plain records.
#pragma once

#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/timers.h"
#include "store/redlock/ballot/config.h"

namespace distlock::store::ballot {

// The holder of the lock at one server instead.
struct Rival {
  core::HolderView view;
  Place place = kFirstPlace;
};

// A candidate at one server.
struct VoteAtServer {
  // The server's answer in the present round. kNothing: it was not asked. kRefused: an error that asking again repeats.
  enum class Answer : uint8_t { kNothing, kAsked, kVoted, kNotVoted, kLate, kFailed, kRefused };

  uint64_t token = 0;        // of its vote; 0: it has none, as far as is known
  Instant from{};            // the vote's life began no earlier
  bool is_fresh = false;     // the server counted when the vote was given, or confirmed
  Instant asked_from{};      // it was asked for its vote then for the first time
  bool queued = false;       // it has a place there
  core::StoreTime waits_at;  // when the server last answered that it waits, by the server's clock
  Instant waits_from{};      // it was sent something then that was answered: it waits. A later vote began no earlier
  uint64_t raised = 0;       // greatest token sent to confirm its vote: it may be under that by now, answered or not
  uint64_t yielded = 0;      // the vote under this token was given back: no earlier one counts either
  uint64_t yielding = 0;     // a yield under this token may still come, and take a vote under it: no grant has it
  uint64_t lost_yield = 0;   // the greatest token of a yield that had no answer: it may come late
  uint64_t leaving = 0;      // a vote under this token or an earlier one may be another's: it is to be confirmed
  core::StoreTime since;     // of its vote, by the server's clock
  Instant began{};           // its max_hold counts there from no earlier
  Instant began_by{};        // nor from later
  bool is_behind = false;    // it has not been downgraded there yet, as far as is known
  uint64_t found = 0;        // the present round has found another candidate's hold there, under this token
  Instant may_run_until{};   // what was sent over a connection that broke may run until then

  Answer answer = Answer::kNothing;
  bool shares = false;  // its holders are SHARED
  std::vector<Rival> rivals;
  uint32_t position = 0;
  uint32_t queue_length = 0;
  std::optional<Duration> left;
  Outcome refusal;      // kRefused
  std::string trouble;  // kFailed: what the server said, if it answered
};

struct Candidate : core::Timed {
  enum class Phase : uint8_t { kVoting, kConfirming, kHeld };
  struct UnansweredAcquire {
    core::OpId op = 0;
    Instant at{};
  };

  Spec spec;
  Marks marks;            // of all that it has asked for
  Instant marked_from{};  // its present marks are of what it has asked for since
  Phase phase = Phase::kVoting;
  std::vector<UnansweredAcquire> unanswered;  // acquires of the core that are not answered yet
  bool waits = false;                         // some of them wait in the queue
  bool again = false;
  bool acked = false;  // the core was told that it has a place
  Instant run_before = core::kNever;
  absl::InlinedVector<VoteAtServer, 5> at;  // by server

  // The round of votes.
  uint64_t round = 0;
  bool is_open = false;   // it has not been judged
  bool is_dated = false;  // a vote has come by itself since it began: who stood against it may have gone
  Instant asked{};
  Instant ask_at = core::kNever;  // the next round is due
  int back_off = 0;
  int splits = 0;
  std::optional<OwnerId> yielded_to;  // who had q votes when it gave its own back last
  int yields = 0;                     // to the same one before that, in a row

  // Confirming.
  uint64_t confirming = 0;  // the token
  Duration promised{};      // max_hold does not end it before
  Instant confirm_sent{};
  uint32_t confirm_asked = 0;  // bits, by server
  uint32_t confirmed = 0;
  Instant confirm_again{};  // servers have refused to: not before

  // Held.
  uint64_t token = 0;                 // that the core was told; 0: none, or nobody can believe in it any more
  Instant deadline{};                 // D, as the ballot knows it
  Instant hold_until = core::kNever;  // end by max_hold, not before it ends at q servers
  bool is_callers = false;            // a caller renews it, so the servers end it by max_hold
  Instant downgraded_at{};            // SHARED since a downgrade that was sent then
  Instant join_at = core::kNever;     // servers that have not voted are asked to join
  Instant forget_at = core::kNever;

  // The core was told of a grant, and a repeat of the request, here or elsewhere, may have it: whoever gives this
  // request up leaves it alone.
  bool MayBeHeld() const { return core::IsRepeatable(spec.owner) && token != 0; }
  // The server has not got the grant as it is now, as far as is known.
  bool Lacks(NodeIndex node) const { return at[node].token != token || at[node].is_behind; }
  // The server has the grant since a command of `sent`, as of `now`.
  void HasJoined(VoteAtServer& at_node, Instant sent, Instant now) const {
    at_node.began = hold_until == core::kNever ? sent : hold_until - spec.max_hold;
    at_node.began_by = std::max(at_node.began_by, at_node.began + (now - sent));
  }
  const UnansweredAcquire* LastUnanswered() const { return unanswered.empty() ? nullptr : &unanswered.back(); }
};

inline uint32_t Bit(NodeIndex node) { return uint32_t{1} << node; }

}  // namespace distlock::store::ballot
