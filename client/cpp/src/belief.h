// SPDX-License-Identifier: Apache-2.0
//
// Until when one session may be believed in, from its Open (which is heartbeat 0) to its end. Pure: no clock, no IO, no
// threads; the caller passes the time as CLOCK_BOOTTIME nanoseconds. Not thread-safe.
//
// 1. Every deadline is counted from when the client *sent* the heartbeat that the broker's promise refers to, so no
//    delay of the network can make a deadline later.
// 2. Nothing is subtracted: the broker has taken the drift of the clocks off its promises.
// 3. A deadline that has passed stays, whatever arrives later.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "boot_clock.h"

namespace distlock::internal {

class SessionBelief {
 public:
  SessionBelief() = default;
  // `now_ns`: before the Open was handed to the stream. `grace_ns`: how long the broker has to answer it.
  SessionBelief(int64_t now_ns, int64_t grace_ns) : deadline_ns_(AddNs(now_ns, grace_ns)) { sent_[0] = {0, now_ns}; }

  // A heartbeat is about to be handed to the stream; returns its seq.
  int64_t Send(int64_t now_ns) {
    ++last_sent_;
    At(last_sent_) = {last_sent_, now_ns};
    return last_sent_;
  }

  // The deadline of a promise of `valid_for_ns` that answers heartbeat `seq`, whatever the broker says `seq` is; 0 when
  // that heartbeat is forgotten or was never sent.
  int64_t DeadlineOf(int64_t seq, int64_t valid_for_ns) const {
    const Sent& sent = At(seq);
    return seq <= last_sent_ && sent.seq == seq ? AddNs(sent.at_ns, valid_for_ns) : 0;
  }

  // The answer to heartbeat `seq`. False: it is not new, or comes after the session has lapsed; it must then extend no
  // lease.
  bool Ack(int64_t seq, int64_t valid_for_ns, int64_t now_ns) {
    const int64_t promised_ns = DeadlineOf(seq, valid_for_ns);
    if (Lapsed(now_ns) || promised_ns == 0 || seq <= last_acked_) return false;
    // The grace of the Open is no promise: the first answer replaces it.
    deadline_ns_ = last_acked_ < 0 ? promised_ns : std::max(deadline_ns_, promised_ns);
    last_acked_ = seq;
    return true;
  }

  // No answer came for a whole validity: the broker has given the session up, too.
  bool Lapsed(int64_t now_ns) const { return now_ns >= deadline_ns_; }

  // When the oldest heartbeat without an answer was sent, of those that are remembered; kNever: all are answered.
  int64_t unanswered_since_ns() const {
    const int64_t oldest = std::max({last_acked_ + 1, int64_t{1}, last_sent_ + 1 - kRemembered});
    return oldest > last_sent_ ? kNever : At(oldest).at_ns;
  }
  bool heard() const { return last_acked_ > 0; }  // an answer to a heartbeat
  int64_t last_sent_ns() const { return At(last_sent_).at_ns; }
  int64_t deadline_ns() const { return deadline_ns_; }

 private:
  static constexpr int64_t kRemembered = 64;
  struct Sent {
    int64_t seq = 0;
    int64_t at_ns = 0;
  };
  const Sent& At(int64_t seq) const { return sent_[static_cast<size_t>(seq) % kRemembered]; }
  Sent& At(int64_t seq) { return sent_[static_cast<size_t>(seq) % kRemembered]; }

  std::array<Sent, kRemembered> sent_{};
  int64_t last_sent_ = 0;
  int64_t last_acked_ = -1;  // -1: none
  int64_t deadline_ns_ = 0;
};

}  // namespace distlock::internal
