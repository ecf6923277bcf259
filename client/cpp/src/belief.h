// SPDX-License-Identifier: Apache-2.0
//
// Until when the client may believe in its leases. Pure: no clock, no IO, no threads; the caller passes the time as
// CLOCK_BOOTTIME nanoseconds, so the simulator runs this very code. Not thread-safe.
//
// 1. Every deadline is counted from when the client *sent* the heartbeat that the broker's promise refers to, so no
//    delay of the network can make a deadline later.
// 2. Nothing is subtracted: the broker has taken the drift of the clocks off its promises.
// 3. A lease whose deadline has passed while it was believed in never comes back, whatever arrives later.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace distlock::internal {

// One lease. Starts undelivered: until Deliver() the program does not know of it, so its deadline may pass and be
// extended again.
class LeaseBelief {
 public:
  // A grant, or an ack that names this lease in its limits. May also move the deadline back: the broker's last word
  // counts.
  void Set(int64_t deadline_ns, int64_t now_ns) {
    Notice(now_ns);
    deadline_ns_ = deadline_ns;
    Notice(now_ns);
  }

  // An ack that does not name this lease.
  void Extend(int64_t deadline_ns, int64_t now_ns) {
    Notice(now_ns);
    if (deadline_ns > deadline_ns_) deadline_ns_ = deadline_ns;
  }

  // Hands the lease to the program, unless its deadline has passed. Returns whether it is handed over.
  bool Deliver(int64_t now_ns) {
    delivered_ = delivered_ || now_ns < deadline_ns_;
    return delivered_;
  }

  // Remembers that the deadline was seen to pass.
  void Notice(int64_t now_ns) { lapsed_ = lapsed_ || (delivered_ && now_ns >= deadline_ns_); }

  bool Believes(int64_t now_ns) const { return delivered_ && !lapsed_ && now_ns < deadline_ns_; }
  bool delivered() const { return delivered_; }
  bool lapsed() const { return lapsed_; }
  int64_t deadline_ns() const { return deadline_ns_; }

 private:
  int64_t deadline_ns_ = 0;
  bool delivered_ = false;
  bool lapsed_ = false;
};

// One session, from its Open (which is heartbeat 0) to its end.
class SessionBelief {
 public:
  SessionBelief() = default;
  // `now_ns`: before the Open was handed to the stream. `grace_ns`: how long the broker has to answer it.
  SessionBelief(int64_t now_ns, int64_t grace_ns) : deadline_ns_(now_ns + grace_ns) { sent_[0] = {0, now_ns}; }

  // A heartbeat is about to be handed to the stream; returns its seq.
  int64_t Send(int64_t now_ns) {
    ++last_sent_;
    sent_[static_cast<size_t>(last_sent_) % kRemembered] = {last_sent_, now_ns};
    return last_sent_;
  }

  // The deadline of a promise of `valid_for_ns` that answers heartbeat `seq`, whatever the broker says `seq` is; 0 when
  // that heartbeat is forgotten or was never sent.
  int64_t DeadlineOf(int64_t seq, int64_t valid_for_ns) const {
    const Sent& sent = sent_[static_cast<size_t>(seq) % kRemembered];
    return seq <= last_sent_ && sent.seq == seq ? sent.at_ns + valid_for_ns : 0;
  }

  // The answer to heartbeat `seq`. False: it is not new, or comes after the session has lapsed; it must then extend no
  // lease.
  bool Ack(int64_t seq, int64_t valid_for_ns, int64_t now_ns) {
    const int64_t deadline_ns = DeadlineOf(seq, valid_for_ns);
    if (Lapsed(now_ns) || deadline_ns == 0 || (acked_any_ && seq <= last_acked_)) return false;
    // The grace of the Open is no promise: the first answer replaces it.
    if (!acked_any_ || deadline_ns > deadline_ns_) deadline_ns_ = deadline_ns;
    acked_any_ = true;
    last_acked_ = seq;
    return true;
  }

  // No answer came for a whole validity: the broker has given the session up, too.
  bool Lapsed(int64_t now_ns) {
    lapsed_ = lapsed_ || now_ns >= deadline_ns_;
    return lapsed_;
  }

  int64_t unanswered() const { return last_sent_ - last_acked_; }
  // When the oldest heartbeat without an answer was sent, of those that are remembered; the greatest number: all are
  // answered.
  int64_t unanswered_since_ns() const {
    if (unanswered() == 0) return std::numeric_limits<int64_t>::max();
    const int64_t oldest = std::max(last_acked_ + 1, last_sent_ + 1 - static_cast<int64_t>(kRemembered));
    return sent_[static_cast<size_t>(oldest) % kRemembered].at_ns;
  }
  int64_t last_sent_ns() const { return sent_[static_cast<size_t>(last_sent_) % kRemembered].at_ns; }
  int64_t deadline_ns() const { return deadline_ns_; }

 private:
  static constexpr size_t kRemembered = 64;
  struct Sent {
    int64_t seq = 0;
    int64_t at_ns = 0;
  };

  std::array<Sent, kRemembered> sent_{};
  int64_t last_sent_ = 0;
  int64_t last_acked_ = 0;
  bool acked_any_ = false;
  bool lapsed_ = false;
  int64_t deadline_ns_ = 0;
};

}  // namespace distlock::internal
