// SPDX-License-Identifier: Apache-2.0
//
// The verbs whose answers of several servers become one, and change no votes by themselves: tend, watch, downgrade,
// force, adopt and wanted. (A force asks one server after the other: it must not take votes from a holder whose broker
// hears.)
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "core/timers.h"
#include "store/redlock/ballot/candidates.h"
#include "store/redlock/ballot/context.h"
#include "store/redlock/ballot/debts.h"

namespace distlock::store::ballot {

class Rounds {
 public:
  Rounds(Context& context, Candidates& candidates, Debts& debts)
      : context_(context), candidates_(candidates), debts_(debts) {}

  // Tend, watch, downgrade, force, adopt or wanted.
  void Begin(core::OpId op, core::StoreCommand&& command);
  void OnReply(const Sent& sent, Outcome& outcome);
  // A server has more to hand on than one call does: its share of the queue is tended again.
  void TendAgain(NodeIndex node, const LockName& name);
  void OnTick();
  Instant NextDeadline() const { return timers_.Earliest(); }

 private:
  struct Round : core::Timed {
    core::OpId op = 0;  // 0: nobody waits for an answer
    core::StoreCommand command;
    Instant sent{};
    uint64_t least_token = 0;  // the same for all servers, whenever they are asked
    Instant patience{};
    Instant silence{};
    uint32_t waiting = 0;                // bits: asked, and not answered
    uint32_t unasked = 0;                // bits: of a force
    NodeIndex last_asked = 0;            // of a force
    Instant ask_next_at = core::kNever;  // of a force: it is silent by then
    bool told = false;                   // of a force: the holder's broker hears of it
    uint32_t adopted = 0;                // bits
    bool answered = false;
    bool all_gone = false;  // of a tend: the core asks for the places anew
    std::array<std::optional<Outcome>, kMaxNodes> answers;
  };

  void Send(Round& round, NodeIndex node);
  void SendNext(Round& round);
  void OnAnswer(Round& round, const Sent& sent, const Outcome& outcome);
  // Answers the core when the answers suffice, or, at the end of patience, whatever they are.
  void TryAnswer(Round& round, bool is_late);
  bool AnswerTend(Round& round, bool is_late);
  bool AnswerWatch(Round& round, bool is_late);
  bool AnswerDowngrade(Round& round, bool is_late);
  bool AnswerForce(Round& round, bool is_late);
  bool AnswerAdopt(Round& round, bool is_late);
  bool AnswerWanted(Round& round, bool is_late);
  // Most servers have let it take the lease over: the others owe theirs, and it is the holder.
  void HoldAdopted(const Round& round, const core::AdoptDone& merged);
  void OnAdoptedLate(Round& round, NodeIndex node);
  template <typename Result>
  bool Answer(Round& round, Result&& result);
  bool GiveUp(Round& round, const char* why);
  const core::StoreFailed* Refusal(const Round& round) const;
  // The servers that have answered so, as bits.
  template <typename Done>
  uint32_t With(const Round& round, typename Done::Result result) const;
  template <typename T>
  size_t CountOf(const Round& round) const;
  void Finish(Round& round);

  Context& context_;
  Candidates& candidates_;
  Debts& debts_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Round>> rounds_;
  core::Timers timers_;
  uint64_t last_round_ = 0;
};

}  // namespace distlock::store::ballot
