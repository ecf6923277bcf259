// SPDX-License-Identifier: Apache-2.0
//
// The acquires that have no answer yet: each is answered exactly once, its locks all granted or all refused. Pure;
// guarded by the mutex of the Engine.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "held_leases.h"
#include "sessions.h"

namespace distlock::internal {

// The answer to an acquire after Close, and to one that is withdrawn.
Refusal ClosedRefusal();
Refusal CancelledRefusal();

class Requests {
 public:
  Requests(const TableOptions& options, Sessions& sessions, HeldLeases& held)
      : options_(options), sessions_(sessions), held_(held) {}

  // REQUIRES: at least one spec.
  RequestPtr Add(std::span<const SpecPtr> specs, std::optional<Duration> max_wait, AcquireCallback answer,
                 int64_t now_ns, Effects& fx);
  // One of the locks that are asked for; null: none has this id.
  LeasePtr Find(int64_t id) const;
  std::vector<RequestPtr> All() const;
  bool empty() const { return waiting_.empty(); }

  // Hands out the locks, if all are granted and none is past its deadline.
  void Deliver(Request& request, int64_t now_ns, Effects& fx);
  void Refuse(Request& request, Refusal refusal, Effects& fx);
  // Tells the broker that nobody wants it any more: what it has granted, or may still grant, goes back.
  void Withdraw(const Request& request);
  // No broker has it any more.
  void Strand(Request& request, int64_t now_ns);
  // A broker has it.
  void Arrive(Request& request);
  // Sends what no session has, if the present session takes it.
  void SendUnsent(int64_t now_ns, Effects& fx);
  // Says goodbye, so that the broker ends the stream in good order. What waits goes to the next stream.
  void Leave(Link& link);

  // Refuses those that have waited for too long: for the answer, or for a broker to be found.
  void TimeOut(int64_t now_ns, Effects& fx);
  int64_t wake_ns() const { return timeouts_.empty() ? kNever : timeouts_.begin()->first; }

  std::optional<Refusal> last_failure;  // of the last broker that was tried; none since one has served this client

 private:
  void Send(Request& request, int64_t now_ns, Effects& fx);
  RequestPtr Remove(Request& request);
  void Schedule(Request& request, int64_t at_ns);
  int64_t GivenUpAt(const Request& request) const;
  Refusal Unreachable(int64_t since_ns, int64_t now_ns) const;

  const TableOptions& options_;
  Sessions& sessions_;
  HeldLeases& held_;
  absl::btree_map<int64_t, RequestPtr> waiting_;           // by the first id, which is also their order
  absl::btree_set<std::pair<int64_t, int64_t>> timeouts_;  // when which is given up
};

}  // namespace distlock::internal
