// SPDX-License-Identifier: Apache-2.0
//
// One connection between two processes: two streams of messages, each in order, nothing twice. It may be slow, fall silent
// in one or both directions (what was sent arrives when it speaks again, as TCP does), and break: then a part of what is
// under way still arrives, perhaps much later, the rest never, and each end learns of it in its own time.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "world/process.h"

namespace distlock::sim {

class Wire : public std::enable_shared_from_this<Wire> {
 public:
  enum Side : int { kClient = 0, kServer = 1 };

  // `local`: within one machine, where messages take no time.
  static std::shared_ptr<Wire> Connect(Env& env, Process& client, Process& server, bool local = false);

  // Runs `arrive` in the other end. Returns the message's number on this side, from 1.
  uint64_t Send(Side from, Timeline::What arrive);
  // Whether that message will never arrive. Certain only once the connection is over.
  bool Lost(Side from, uint64_t number) const { return ways_[from].cut && number > ways_[from].kept; }

  // This side wants no more. The other hears of it after what was sent, of which the end may be lost.
  void Close(Side from) { End(from, false); }
  // As Close, and nothing is lost.
  void Finish(Side from) { End(from, true); }
  // Cut in the middle: each side hears of it after up to `longest`.
  void Break(Duration longest);
  // Nothing passes from that side until then.
  void Silence(Side from, Instant until) { ways_[from].silent_until = std::max(ways_[from].silent_until, until); }

  Instant silent_until(Side from) const { return ways_[from].silent_until; }
  // Messages of that side that are on their way, and those that are not any more: arrived, or lost.
  size_t under_way(Side from) const { return ways_[from].under_way.size(); }
  uint64_t arrived(Side from) const { return ways_[from].arrived; }

  // What that side sends takes so much longer, as long as there is trouble; in its order as ever.
  void Lag(Side from, Duration by) { ways_[from].lag = by; }

  bool open() const { return !closed_[0] && !closed_[1] && !ways_[0].cut; }
  bool local() const { return local_; }
  bool open_at(Side side) const { return !closed_[side]; }
  const Process& end(Side side) const { return *ends_[side].process; }

  // Called once, in that end, when it learns that the connection is over; not on the side that closed it.
  std::function<void()> on_closed[2];

 private:
  Wire(Env& env, Process& client, Process& server, bool local)
      : env_(env), local_(local), ends_{{&client, client.life()}, {&server, server.life()}} {}

  struct Way {
    uint64_t sent = 0;
    uint64_t arrived = 0;  // or lost on the way
    std::deque<Timeline::What> under_way;
    uint64_t kept = 0;  // with cut: of those sent, so many arrive
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
  void End(Side from, bool keep_all);
  void Cut(Side from, bool keep_all);
  void TellClosed(Side side);

  Env& env_;
  const bool local_;
  Peer ends_[2];
  Way ways_[2];
  bool closed_[2] = {false, false};
};

using WirePtr = std::shared_ptr<Wire>;

}  // namespace distlock::sim
