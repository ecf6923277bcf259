// SPDX-License-Identifier: Apache-2.0
//
// How callers that block tell the transport of it, so that a lone one may do the transport's work instead of waiting
// for another thread. Thread-safe.
#pragma once

#include "mutex.h"

namespace distlock::internal {

class Waiting {
 public:
  virtual ~Waiting() = default;

  // Before a call whose caller will wait.
  virtual void Begin() = 0;
  // Its answer is known: just before its caller is notified.
  virtual void Answered() = 0;
  // On the caller's thread, behind Begin: returns when `done` has been notified.
  virtual void Await(Notification& done) = 0;
  // Something is on its way that no caller waits for.
  virtual void Attend() = 0;
};

}  // namespace distlock::internal
