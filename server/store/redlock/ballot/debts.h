// SPDX-License-Identifier: Apache-2.0
//
// Releases that are due at every server: answered once q servers have confirmed it, owed to the others until they have,
// or until nothing of it can be left there.
//
// To one server a debt goes before anything new of its owner; after a connection broke, before anything at all. What
// was in flight over that connection may still run: then the release is repeated when it cannot any more.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "core/timers.h"
#include "store/redlock/ballot/candidate.h"
#include "store/redlock/ballot/context.h"

namespace distlock::store::ballot {

// Votes that came with another answer.
class VoteNews {
 public:
  // The server's answer to a command that was sent at `sent` names the next holders.
  virtual void OnNext(NodeIndex node, const LockName& name, Instant sent, const std::vector<core::HolderView>& next,
                      bool look) = 0;
  // Nothing is owed to the server for this owner any more.
  virtual void OnSettled(NodeIndex node, const Claim& claim) = 0;

 protected:
  ~VoteNews() = default;
};

class Debts {
 public:
  struct Due {
    Claim claim;
    uint64_t token = 0;  // as in ReleaseNamed
    Marks marks;         // as in ReleaseNamed
    Duration block{};
    bool ends_min_hold = true;  // nobody was told of what it had, or it did not end by a release
    bool keep_grant = false;
    Duration life{};    // whatever the owner may have at a server ends within this time
    bool held = false;  // it had the lock until now
  };

  Debts(Context& context, VoteNews& news) : context_(context), news_(news) {}

  // The core's release or withdrawal `op`. `stands`: of its candidate; null: there is none.
  void Owe(core::OpId op, const Due& due, const Candidate* candidate);
  // For debts without a request: not answered to the core. Of all servers, or of one.
  void OweAll(const Due& due, const Candidate* candidate) { Owe(0, due, candidate); }
  void OweOne(NodeIndex node, const Due& due, Instant may_run_until = {});

  // Commands for an owner that is no candidate any more may run until then.
  void OnMayRun(NodeIndex node, const Claim& claim, Instant until);
  // Something is owed to the server for this owner that has not been confirmed: it is not to be asked for a vote.
  bool Blocks(NodeIndex node, const Claim& claim) const {
    const auto found = nodes_[node].find(claim);
    return found != nodes_[node].end() && !found->second.is_done;
  }

  void OnNodeUp(NodeIndex node);
  void OnReply(const Sent& sent, Outcome& outcome);
  void OnTick();
  Instant NextDeadline() const { return std::min(debt_timers_.Earliest(), call_timers_.Earliest()); }
  size_t size() const;

 private:
  struct Debt : core::Timed {
    Due due;
    NodeIndex node = 0;
    uint64_t attempt = 0;  // of the command in flight; 0: none is
    Instant until{};
    Instant retry_at = core::kNever;
    Instant may_run_until{};
    bool is_done = false;  // confirmed, and to be repeated when nothing that was sent before can run any more
  };
  // An owner's debts to all servers, until the core has its answer.
  struct Call : core::Timed {
    std::vector<core::OpId> ops;
    Due due;
    Instant begun{};
    Instant until{};
    Instant patience{};
    uint32_t acked = 0;  // bits
    int released = 0;
    int withdrawn = 0;
    Duration blocked_for{};
    bool answered = false;
  };

  void Put(NodeIndex node, const Due& due, Instant may_run_until);
  static void Merge(Debt& debt, const Due& due);
  void Send(Debt& debt);
  void Arm(Debt& debt);
  void MarkPaid(NodeIndex node, Claim claim);
  void OnGaveBack(Debt& debt, const Sent& sent, const GaveBack& gave);
  void Ack(NodeIndex node, const Claim& claim, const GaveBack& gave);
  void TryAnswer(Call& call);
  void Forget(Claim claim);

  Context& context_;
  VoteNews& news_;
  std::array<std::map<Claim, Debt>, kMaxNodes> nodes_;
  std::map<Claim, Call> calls_;
  core::Timers debt_timers_;
  core::Timers call_timers_;
  uint64_t last_attempt_ = 0;
  uint64_t last_serial_ = 0;
};

}  // namespace distlock::store::ballot
