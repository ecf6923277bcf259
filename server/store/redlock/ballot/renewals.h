// SPDX-License-Identifier: Apache-2.0
//
// Renewals: every server is asked, q of them decide. A server that has lost the grant joins it again, but only once q
// others have renewed it.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/timers.h"
#include "store/redlock/ballot/candidates.h"
#include "store/redlock/ballot/context.h"

namespace distlock::store::ballot {

class Renewals {
 public:
  Renewals(Context& context, Candidates& candidates) : context_(context), candidates_(candidates) {}

  void Renew(core::StoreRenew&& in);
  void OnReply(const Sent& sent, const Outcome& outcome);
  void OnTick();
  Instant NextDeadline() const { return timers_.Earliest(); }

 private:
  struct Item {
    core::RenewItem asked;
    uint32_t renewed = 0;                          // bits, by server: those that count
    uint32_t gone = 0;                             // bits: those that count, and do not have it
    uint32_t lacks = 0;                            // bits: all that do not have it
    Duration hold_left = Duration::max();          // by max_hold: the least of the servers that renewed it and count
    Duration refused_hold_left = Duration::max();  // of all others
    bool is_anothers = false;
    bool is_moved = false;
    bool is_done = false;  // its erosion is repaired
  };
  struct Round : core::Timed {
    core::OpId op = 0;
    Instant sent{};
    uint32_t waiting = 0;  // bits: servers that have not answered
    bool answered = false;
    std::vector<Item> items;
    bool has_hold = false;  // max_hold bounds some of them
  };

  void Note(Round& round, NodeIndex node, const core::RenewDoneBatch& done);
  core::RenewResult ResultOf(const Item& item) const;
  bool IsDecided(const Item& item, const Round& round) const;
  void TryAnswer(Round& round, bool at_once);
  void Repair(Round& round);

  Context& context_;
  Candidates& candidates_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Round>> rounds_;
  core::Timers timers_;
  uint64_t last_round_ = 0;
};

}  // namespace distlock::store::ballot
