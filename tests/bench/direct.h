// SPDX-License-Identifier: Apache-2.0
//
// Programs without a broker: hiredis against Redis. Commands are formatted beforehand and every reply is checked, so
// these are the fastest clients of their kind.
#pragma once

#include <memory>
#include <string>

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// The commands for acquire and release.
enum class DirectKind {
  kSetNx,    // SET NX PX; compare-and-delete by a script: no fencing token, no queue
  kFenced,   // a script: SET NX PX and INCR of a token; compare-and-delete: no queue
  kScripts,  // the broker's acquire.lua and release.lua
};

// One thread and one connection per client, one command in flight.
std::unique_ptr<Load> DirectSync(const Lab& lab, DirectKind kind, size_t clients, Transport over = Transport::kAsSetUp);

// One hiredis async connection on one libuv thread, pipelining `in_flight` slots of the broker's scripts.
std::unique_ptr<Load> DirectPipelined(const Lab& lab, size_t in_flight, Transport over = Transport::kAsSetUp);

// The commands of one slot, in RESP, and checks of their replies.
class DirectSlot {
 public:
  // Loads the scripts into Redis, for all connections.
  static void LoadScripts(redisContext* connection);

  DirectSlot(DirectKind kind, const std::string& name);

  const std::string& acquire() const { return acquire_; }
  const std::string& release() const { return release_; }
  // "", or the problem.
  std::string CheckAcquired(const redisReply* reply);
  std::string CheckReleased(const redisReply* reply) const;

 private:
  DirectKind kind_;
  std::string acquire_;
  std::string release_;
  size_t token_at_ = 0;  // in release_
  std::string last_token_;
  long long last_number_ = 0;  // of kFenced
};

}  // namespace distlock::bench
