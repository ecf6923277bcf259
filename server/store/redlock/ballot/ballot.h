// SPDX-License-Identifier: Apache-2.0
//
// Several independent servers as one store: takes the core's commands, asks every server, and answers with what q of
// them say. Pure: no IO, clock, threads or randomness but the seed. The servers' scripts decide who gets each server's
// vote, the ballot what the votes amount to. ../README.md argues why that is enough.
//
// Thread: the loop's. Time must not go backwards between calls.
// Invariants:
//  1. Each command of the core gets exactly one answer.
//  2. Only votes, confirmations and renewals of servers that count are counted, and q of the configured N are needed.
//  3. No two conflicting grants are believed in at once, and the later of two grants has the greater token.
//  4. What is left at any server by an owner that has no candidate here is owed to that server as a release.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "store/redlock/ballot/candidates.h"
#include "store/redlock/ballot/config.h"
#include "store/redlock/ballot/context.h"
#include "store/redlock/ballot/debts.h"
#include "store/redlock/ballot/messages.h"
#include "store/redlock/ballot/renewals.h"
#include "store/redlock/ballot/rounds.h"

namespace distlock::store::ballot {

class Ballot : private VoteNews {
 public:
  explicit Ballot(const Config& config);
  Ballot(const Ballot&) = delete;
  Ballot& operator=(const Ballot&) = delete;

  // Appends to `effects`, in the order to perform them in.
  void Step(Instant now, Input&& input, std::vector<Effect>& effects);
  // When Step is wanted next at the latest; kNever: no need.
  Instant NextDeadline() const;

  const Nodes& nodes() const { return context_.nodes; }
  // For tests and reports.
  size_t candidates() const { return candidates_.size(); }
  size_t debts() const { return debts_.size(); }
  size_t in_flight() const { return context_.in_flight(); }
  // How many there were of each QuorumRound.
  const std::array<uint64_t, kQuorumRounds>& rounds() const { return context_.rounds(); }

 private:
  void Handle(Tick&) {}
  void Handle(core::StoreCommand& command);
  void Handle(NodeUp& in);
  void Handle(NodeDown& in);
  void Handle(NodeFitness& in);
  void Handle(NodeClockStep& in);
  void OnClockStep(NodeIndex node, Duration by);
  void Handle(NodeReply& in);
  void Handle(NodeNotice& in);

  void GiveBack(core::OpId op, Debts::Due due);
  void TellState(bool renew_all);

  void OnNext(NodeIndex node, const LockName& name, Instant sent, const std::vector<core::HolderView>& next,
              bool look) override;
  void OnSettled(NodeIndex node, const Claim& claim) override { candidates_.OnSettled(node, claim); }

  Context context_;
  Debts debts_;
  Candidates candidates_;
  Renewals renewals_;
  Rounds rounds_;
  bool told_up_ = false;
  bool told_down_ = false;
  bool was_ever_up_ = false;
  Instant up_at_ = core::kNever;  // a quorum can be reached, and the rest is waited for until then
};

}  // namespace distlock::store::ballot
