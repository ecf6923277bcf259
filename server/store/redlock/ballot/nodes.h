// SPDX-License-Identifier: Apache-2.0
//
// The configured servers: which can be reached, whose votes count, and what time it is by most of them.
//
// A server counts when it cannot have forgotten a lock whose holder still believes, when its clock was not set within
// the longest ttl, and when it agrees with the median of all clocks. One that does not count is written to all the
// same: so it knows the locks by the time it counts.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "store/redis/server_clock.h"
#include "store/redlock/ballot/config.h"

namespace distlock::store::ballot {

class Nodes {
 public:
  explicit Nodes(const Config& config);

  size_t size() const { return nodes_.size(); }
  size_t quorum() const { return nodes_.size() / 2 + 1; }

  void Up(NodeIndex node, const ServerClock& clock);
  void Down(NodeIndex node, std::string cause);
  void Judge(const NodeFitness& fitness);
  // An answer that was asked for at `sent`. Returns by how much the server's clock was set, if it was.
  std::optional<Duration> Learn(NodeIndex node, Instant sent, Instant received, core::StoreTime time);
  // Sets its clock as known over its connection, where commands that the ballot does not see are answered, too.
  void Set(NodeIndex node, const ServerClock& clock) { nodes_[node].clock = clock; }
  // Its clock was set: it does not count for as long as a lease lasts.
  void Suspect(NodeIndex node, Instant now);

  bool IsUp(NodeIndex node) const { return nodes_[node].up; }
  uint32_t up() const { return up_; }  // bits
  // Looks anew at which servers count. Returns those that have begun to, as bits.
  uint32_t Refresh(Instant now);
  // As of the last Refresh, as bits.
  uint32_t counting() const { return counting_; }
  // Whether the server has counted since `instant`, as far as Refresh has looked.
  bool HasCountedSince(NodeIndex node, Instant instant) const {
    return (counting_ >> node & 1) != 0 && nodes_[node].counts_since <= instant;
  }
  // Why its votes do not count, for people; "": they do.
  std::string WhyNot(NodeIndex node, Instant now) const;
  // How long it will not count yet because its clock was set.
  Duration SuspectFor(NodeIndex node, Instant now) const {
    return std::max(nodes_[node].suspect_until - now, Duration::zero());
  }
  // So long nobody new is granted a lock, because too few servers count yet; zero: enough do, or too few are up.
  Duration HeldOffFor(Instant now) const;
  size_t CountUp() const;
  // Those that can be reached, for people.
  std::string Trouble() const;

  // The present time in microseconds by the median of the clocks that are known; 0: none is.
  int64_t Time(Instant now) const;
  // The earliest instant at which its clock can have shown that.
  Instant Earliest(NodeIndex node, core::StoreTime time, Instant now) const {
    return nodes_[node].clock.Earliest(time, now);
  }
  // Whether its stamp of a hold under `token` may be of a clock that was wrong: the stamp is later than the token, and
  // the server has not counted ever since that. The stamp of a server that joined late looks like that, too.
  bool MayBeMistaken(NodeIndex node, core::StoreTime stamp, uint64_t token, Instant now) const;
  // By how much its clock is ahead of the median; nullopt: not known.
  std::optional<Duration> Skew(NodeIndex node, Instant now) const;
  // The least token to propose: the same for all servers, and greater than those of before unless clocks went back.
  uint64_t Proposal(Instant now) const { return static_cast<uint64_t>(Time(now)); }
  // A place for who comes now; each is another, and later than the one before.
  Place NextPlace(Instant now, bool preferred);
  // All places that are given from now on are later than this one, if it is no further ahead of the present time than
  // the reckonings of two brokers can be.
  void PassPlace(Place place, Instant now);

  // A round trip to the servers that a quorum needs, about.
  Duration Trip() const;
  // When a server that suspects its clock counts again, the earliest; kNever: none does.
  Instant NextChange(Instant now) const;

 private:
  struct Node {
    explicit Node(uint32_t drift_ppm) : clock(drift_ppm) {}
    bool up = false;
    bool held_off = false;
    Instant held_off_until{};
    std::string misfit;
    std::string cause = "not connected yet";
    Instant suspect_until{};
    Instant counts_since{};
    ServerClock clock;
    Duration trip = kShortestTrip;
  };

  std::optional<Duration> MedianOffset(Instant now) const;

  const Duration longest_ttl_;
  std::vector<Node> nodes_;
  uint32_t counting_ = 0;
  uint32_t up_ = 0;
  Place last_place_ = 0;
};

}  // namespace distlock::store::ballot
