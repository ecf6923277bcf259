// SPDX-License-Identifier: Apache-2.0
//
// Owners that ask for a lock, wait for it or have it: asks the servers for votes, has them judged, and does what the
// judge says.
//
// Thread: the loop's.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "core/timers.h"
#include "store/redlock/ballot/candidate.h"
#include "store/redlock/ballot/context.h"
#include "store/redlock/ballot/debts.h"
#include "store/redlock/ballot/judge.h"

namespace distlock::store::ballot {

// A candidate's lock as the servers of the present round show it, like one store.
struct Scene {
  std::vector<core::HolderView> holders;
  uint32_t position = 0;
  uint32_t queue_length = 0;
  std::optional<Duration> left;
};

class Candidates {
 public:
  Candidates(Context& context, Debts& debts) : context_(context), debts_(debts) {}

  void Acquire(const core::StoreAcquire& in);
  // The answer to a command of a candidate. `time`: of the server.
  void OnReply(const Sent& sent, Outcome& outcome, core::StoreTime time);
  // The server gave its vote to a waiter of this broker. `from`: the vote's life began no earlier; unset: that is not
  // known. An owner that is no candidate does not want it any more.
  void OnVote(NodeIndex node, const LockName& name, const core::HolderView& vote, std::optional<Instant> from);
  // A tend that was sent at `sent` shows who has a place or a vote there.
  void OnTended(NodeIndex node, const LockName& name, const std::vector<OwnerId>& asked, const core::TendDone& done,
                Instant sent);
  // The others that wait here are looked for again.
  void AskAllOf(NodeIndex node, const LockName& name);
  void OnNodeUp(NodeIndex node, bool forgot);
  void OnSettled(NodeIndex node, const Claim& claim);
  // These servers (bits) have begun to count.
  void OnCounting(uint32_t nodes);
  void OnTick();
  Instant NextDeadline() const { return timers_.Earliest(); }

  // Null: none is known.
  Candidate* Find(const Claim& claim) const;
  // Null as well when it has not got the lock, or has it under another token.
  Candidate* FindHeld(const Claim& claim, uint64_t token) const {
    Candidate* const found = Find(claim);
    return found != nullptr && found->phase == Candidate::Phase::kHeld && found->token == token ? found : nullptr;
  }
  // It has another owner, or no candidate, from now on.
  void Forget(Candidate& candidate);
  // A grant that came without votes of this ballot: by adoption, which was sent at `from`, when it had been held for at
  // most `held_for`.
  void Hold(Spec spec, uint64_t token, Instant from, Duration held_for, uint32_t voters);
  // The grant was renewed by q servers, with a command that was sent at `sent`. `renewed`: by these (bits).
  void OnRenewed(Candidate& candidate, Instant sent, uint32_t renewed, uint32_t refused);
  // It is SHARED by a downgrade that was sent at `sent`, with `info` added to its own. All servers but those of
  // `downgraded` (bits) are asked soon to join it as it is now.
  void OnDowngraded(Candidate& candidate, const std::string& info, uint32_t downgraded, Instant sent);
  // The waiters here for the lock, at most `most`.
  std::vector<OwnerId> WaitersOf(const LockName& name, size_t most) const;
  size_t size() const { return candidates_.size(); }

 private:
  // candidates.cc
  // `found`: as in AskVote.
  void Ask(Candidate& candidate, uint64_t found = 0);
  void SendAsk(Candidate& candidate, NodeIndex node, uint64_t found = 0);
  void Consider(Candidate& candidate);
  void Close(Candidate& candidate);
  void Gather(Candidate& candidate);
  void AskLater(Candidate& candidate);
  void Split(Candidate& candidate);
  void OnNoQuorum(Candidate& candidate);
  void Fail(Candidate& candidate, const Outcome& refusal);
  void Refuse(Candidate& candidate);
  Duration HeldOff(const Candidate& candidate, const Scene& scene) const;
  void End(Candidate& candidate);
  void Arm(Candidate& candidate);
  void OnTimer(Candidate& candidate);
  bool AwaitsGivenBack(const Candidate& candidate) const;
  ServersView BenchFor(const Candidate& candidate) const;
  template <typename Answer>
  void AnswerAll(Candidate& candidate, const Answer& answer) {
    for (const auto& acquire : std::exchange(candidate.unanswered, {})) context_.Answer(acquire.op, answer);
  }

  // candidate_answers.cc
  void OnVoteReply(Candidate& candidate, const Sent& sent, Outcome& outcome, core::StoreTime time);
  void OnVoted(Candidate& candidate, const Sent& sent, const Voted& voted);
  uint64_t OnFound(Candidate& candidate, const Sent& sent, const Voted& voted);
  void MoveTo(Candidate& candidate, Place place);
  bool OnNotVoted(Candidate& candidate, const Sent& sent, NotVoted& answer, core::StoreTime time);
  bool MovePlace(Candidate& candidate, const NotVoted& answer);
  void OnConfirmReply(Candidate& candidate, const Sent& sent, const Outcome& outcome);
  void OnJoinReply(Candidate& candidate, const Sent& sent, const Outcome& outcome);
  void OnYieldReply(Candidate& candidate, const Sent& sent, Outcome& outcome);

  // candidate_grants.cc
  void Win(Candidate& candidate, uint64_t token, Instant from);
  Duration Promise(const Candidate& candidate) const;
  void Confirm(Candidate& candidate, uint64_t token);
  void Yield(Candidate& candidate, const std::optional<OwnerId>& holder);
  void JoinRest(Candidate& candidate);
  void JoinLater(Candidate& candidate);

  Context& context_;
  Debts& debts_;
  absl::flat_hash_map<Claim, std::unique_ptr<Candidate>> candidates_;
  absl::btree_map<LockName, absl::btree_map<uint64_t, Candidate*>> by_lock_;  // by serial
  absl::btree_map<uint64_t, Candidate*> by_serial_;
  core::Timers timers_;
  uint64_t last_serial_ = 0;
  uint64_t last_round_ = 0;
};

Scene SceneOf(const Candidate& candidate, size_t quorum);

}  // namespace distlock::store::ballot
