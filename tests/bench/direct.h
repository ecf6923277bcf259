// SPDX-License-Identifier: Apache-2.0
//
// What a program without a broker would do: hiredis against Redis. Commands are formatted beforehand and every reply is
// checked, so these are the fastest clients of their kind and the hardest to compare with.
#pragma once

#include <memory>
#include <string>

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

// What acquire and release are.
enum class DirectKind {
  kSetNx,    // SET NX PX; compare-and-delete by a script: no fencing token, no queue
  kFenced,   // a script: SET NX PX and INCR of a token; compare-and-delete: no queue
  kScripts,  // our own acquire.lua and release.lua
};

// One thread and one connection per client, one command in flight.
std::unique_ptr<Load> DirectSync(const Lab& lab, DirectKind kind, size_t clients, Transport over = Transport::kAsSetUp);

// One hiredis async connection on one libuv thread, pipelining `in_flight` slots of our own scripts.
std::unique_ptr<Load> DirectPipelined(const Lab& lab, size_t in_flight, Transport over = Transport::kAsSetUp);

// The commands of one slot, in RESP, and what their replies must look like.
class DirectSlot {
 public:
  // Loads the scripts through `connection`, which any later connection profits from.
  static void LoadScripts(redisContext* connection);

  DirectSlot(DirectKind kind, const std::string& name);

  const std::string& acquire() const { return acquire_; }
  const std::string& release() const { return release_; }
  // "" or what is wrong.
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
