// SPDX-License-Identifier: Apache-2.0
//
// How one server of the store is doing, for status pages and metrics. A value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"

namespace distlock::store {

struct ReplicaStatus {
  std::string address;  // as the primary names it
  bool online = false;
  core::Duration lag{};  // since it last confirmed what it has; whole seconds
};

struct NodeStatus {
  enum class State : uint8_t { kDown, kUp, kHeldOff };  // kHeldOff: up, and nobody is newly granted a lock
  int number = 0;                                       // tells the servers of one store apart
  bool gone = false;    // it is no part of the store any more, and its number may be another's
  std::string address;  // host:port, or the path of its socket
  State state = State::kDown;
  std::string problem;  // why it is down
  std::string refusal;  // up, but it refuses writes: its words, such as "NOREPLICAS Not enough good replicas to write"
  std::string role;     // as the server says it: "master" or "slave"
  std::string version;
  std::string identity;  // 8 hex digits that another run, or another primary, does not share; "" before it was up
  // With a hold-off; nullopt: its end is not known yet.
  std::optional<core::Duration> hold_off_left;
  std::string guard;                    // what bounds the hold-off, for people; "": hold-offs are off
  std::vector<ReplicaStatus> replicas;  // while hold-offs are on
  uint64_t epoch = 0;                   // of the sentinels' choice of it; 0: none are asked
  bool independent = false;             // one of several servers, of which most decide
  std::string not_counted;              // of such a one: why its votes do not count; "" when they do
  // Several servers that each grant locks: by how much its clock is ahead of the median of all. nullopt: not known.
  std::optional<core::Duration> clock_skew;
  // By how much its clock runs faster (negative: slower) than the broker's, beyond what clock_drift_ppm allows.
  int64_t clock_slew_ppm = 0;
  std::optional<uint64_t> keys;  // of the store's database, whoever wrote them; nullopt: not known yet
  uint64_t primary_changes = 0;  // to another run of the server, or to another server
};

// Why the store takes no writes, so that nobody is granted a lock, although it answers; "": it takes them. Of
// independent servers most are enough.
inline std::string WhyNoWrites(const std::vector<NodeStatus>& nodes) {
  size_t taking = 0;
  bool independent = false;
  std::string why;
  for (const NodeStatus& node : nodes) {
    independent |= node.independent;
    if (node.state == NodeStatus::State::kDown) continue;
    taking += node.refusal.empty() ? 1 : 0;
    if (why.empty() && !node.refusal.empty()) why = node.address + ": " + node.refusal;
  }
  return independent && taking > nodes.size() / 2 ? "" : why;
}

// True: nobody is newly granted a lock, of some servers' at least, although the store answers.
inline bool IsHeldOff(const std::vector<NodeStatus>& nodes) {
  size_t up = 0;
  size_t held_off = 0;
  bool independent = false;
  for (const NodeStatus& node : nodes) {
    independent |= node.independent;
    up += node.state == NodeStatus::State::kUp && node.not_counted.empty() ? 1 : 0;
    held_off += node.state == NodeStatus::State::kHeldOff || !node.not_counted.empty() ? 1 : 0;
  }
  return independent ? up <= nodes.size() / 2 && up + held_off > nodes.size() / 2 : held_off > 0;
}

}  // namespace distlock::store
