// SPDX-License-Identifier: Apache-2.0
//
// The trick of known callers. Authorizer::Arrive is the main line: it finds out who calls from what the acceptor and
// gRPC know of the connection, and what that caller may do, which costs more than all other questions of a call. But
// nothing of that changes from one call of a connection to the next, unless the call carries a proof of its own. So of
// the connections that have called last it is remembered.
//
// Invariants:
//  1. A call with a proof of its own, a bearer token, is neither answered from here nor remembered.
//  2. What is remembered counts for the policy of one generation, and until a proof of the caller ends.
//  3. It keeps no rights alive, so that no policy outlives its time.
//
// Thread: any. Memory: kMost callers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "rpc/authorizer.h"

namespace distlock::rpc {

class KnownCallers {
 public:
  // The caller on the connection; nullopt: not known. `generation`: of the policy in force. `now_s`: Unix time.
  std::optional<Subject> Find(uint64_t connection, uint64_t generation, int64_t now_s);
  void Remember(uint64_t connection, const Subject& subject);

 private:
  // Ids of connections are given in turn, so the last kMost of them have a slot each.
  static constexpr size_t kMost = 1024;
  struct Slot {
    std::mutex mu;
    // Guarded by mu.
    uint64_t connection = 0;
    uint64_t generation = 0;
    std::shared_ptr<const access::Caller> caller;  // null: the slot is empty
    bool has_rights = false;                       // false: there is no policy
    std::weak_ptr<const access::Rights> rights;
    std::shared_ptr<access::Account> account;
  };
  Slot& SlotOf(uint64_t connection) { return slots_[connection % kMost]; }

  std::array<Slot, kMost> slots_;
};

}  // namespace distlock::rpc
