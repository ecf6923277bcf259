// SPDX-License-Identifier: Apache-2.0
//
// What the lock table knows of one session, and a lease's move from one session to another. Guarded by the mutex of the
// Core.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belief.h"
#include "boot_clock.h"
#include "command_queue.h"
#include "lease.h"

namespace distlock::internal {

// A session with a broker, or the place for the next one.
struct Link {
  CommandQueue commands;
  SessionBelief session;
  bool streaming = false;
  bool opened = false;
  bool acked = false;          // the broker has answered a heartbeat: the stream counts as a success
  bool adopts = false;         // the broker has told that it can
  bool authenticates = false;  // the same, of new proofs
  bool draining = false;
  bool leaving = false;  // goodbye is said; new acquires wait for the next stream
  bool heartbeat_due = false;
  std::optional<std::string> shown;  // the last proof that the broker was shown, and has not refused
  int64_t proof_id = 0;              // of the command that brought it; 0: the call did
  int64_t validity_ns = 0;
  int64_t heartbeat_interval_ns = 0;
  int64_t heartbeat_at_ns = kNever;
  int64_t drained_at_ns = kNever;
};

// From the first AdoptLease until it is answered. All holds of a reentrant lease move together.
struct Move {
  std::string request_id;            // the same in every try: a try whose answer was lost may have succeeded
  Link* through = nullptr;           // the session that was asked; null: none, or its answer is lost
  int64_t id = 0;                    // of the command; hold i is answered under id + i
  std::vector<LeasePtr> holds;       // of this try; null: answered, or given up
  std::shared_ptr<const Spec> spec;  // as this try names it
};

}  // namespace distlock::internal
