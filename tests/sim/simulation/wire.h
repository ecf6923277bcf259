// SPDX-License-Identifier: Apache-2.0
//
// One connection between two processes: two streams of messages, each in order and without duplicates. It may be slow,
// or silent in one or both directions (the messages then arrive later, as with TCP). It may be closed, or break: then
// the messages in flight, or the first of them, still arrive, the rest never, and each end notices in its own time. In
// some simulations (Temper::late_bytes) the kernel goes on sending what a client has written, behind its back: all of
// it arrives, up to Temper::longest_late later, beside the messages of its next connection.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "simulation/process.h"

namespace distlock::sim {

class Wire : public std::enable_shared_from_this<Wire> {
 public:
  enum Side : int { kClient = 0, kServer = 1 };

  static std::shared_ptr<Wire> Connect(Env& env, Process& client, Process& server);

  // Sends a message: runs `arrive` at the other end. Returns the message's number on this side, from 1.
  uint64_t Send(Side from, Timeline::What arrive);
  // Whether that message will never arrive. Certain only once the connection is over.
  bool Lost(Side from, uint64_t number) const { return ways_[from].cut && number > ways_[from].kept; }

  // Closes this side. The other side learns of it after the messages in flight, of which the last may be lost.
  void Close(Side from) { End(from, false); }
  // As Close, but no message is lost.
  void Finish(Side from) { End(from, true); }
  // Breaks the connection in the middle: each side notices after at most `longest`.
  void Break(Duration longest);
  // No message from that side arrives until then.
  void Silence(Side from, Instant until) { ways_[from].silent_until = std::max(ways_[from].silent_until, until); }

  void SilenceBoth(Instant until) {
    Silence(kClient, until);
    Silence(kServer, until);
  }

  Instant silent_until(Side from) const { return ways_[from].silent_until; }
  // The numbers of that side's messages in flight, and of those that have arrived or are lost.
  size_t under_way(Side from) const { return ways_[from].under_way.size(); }
  uint64_t arrived(Side from) const { return ways_[from].arrived; }

  // Messages of that side take so much longer while faults may happen; they stay in order.
  void Lag(Side from, Duration by) { ways_[from].lag = by; }

  bool open() const { return !closed_[0] && !closed_[1] && !ways_[0].cut; }
  bool open_at(Side side) const { return !closed_[side]; }
  const Process& end(Side side) const { return *ends_[side].process; }

  // Called once at that end when it learns that the connection is over; not on the side that closed it.
  std::function<void()> on_closed[2];

 private:
  Wire(Env& env, Process& client, Process& server)
      : env_(env), ends_{{&client, client.life()}, {&server, server.life()}} {}

  struct Way {
    uint64_t sent = 0;
    uint64_t arrived = 0;  // or lost on the way
    std::deque<Timeline::What> under_way;
    uint64_t kept = 0;  // with cut: so many of the sent messages arrive
    bool cut = false;
    Instant last_arrival{};
    Instant silent_until{};
    Duration lag{};
  };
  struct Peer {
    Process* process;
    uint64_t life;
  };
  static Side Other(Side side) { return side == kClient ? kServer : kClient; }
  Instant NextArrival(Way& way);
  void ExpectOne(Side from, Instant at);
  void ExpectEnd(Side from, Instant at);
  void End(Side from, bool keep_all);
  void Cut(Side from, bool keep_all);
  bool CutLate();
  void TellClosed(Side side);

  Env& env_;
  Peer ends_[2];
  Way ways_[2];
  bool closed_[2] = {false, false};
};

using WirePtr = std::shared_ptr<Wire>;

}  // namespace distlock::sim
