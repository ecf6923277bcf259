// SPDX-License-Identifier: Apache-2.0
//
// PendingLock: an acquire that has not been answered yet. Thread-safe; copies are cheap and equal.
#pragma once

#include <memory>

#include "distlock/types.h"

namespace distlock {

class MultiLock;

namespace internal {
class Acquirer;
class Core;
struct Request;
struct Spec;
}  // namespace internal

// Dropping the handle changes nothing: the acquire goes on.
class PendingLock {
 public:
  PendingLock() = default;  // no acquire: Cancel() does nothing

  // Withdraws the acquire. The acquire's callback is still called exactly once, with kCancelled or with the answer that
  // came first, and never on the thread of this call.
  void Cancel();

 private:
  friend class MultiLock;
  friend class internal::Acquirer;
  PendingLock(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::Request> request);

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::Request> request_;
};

}  // namespace distlock
