// SPDX-License-Identifier: Apache-2.0
//
// Until when a client of a small system believes in its lease: by session.md, "Belief". Times are nanoseconds.
#pragma once

#include <cstdint>

namespace distlock::sim {

// Starts undelivered: until Deliver() the program does not know of the lease, so its deadline may pass and be extended
// again.
class Belief {
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

  // Hands the lease to the program, unless its deadline has passed.
  void Deliver(int64_t now_ns) { delivered_ = delivered_ || now_ns < deadline_ns_; }

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

}  // namespace distlock::sim
