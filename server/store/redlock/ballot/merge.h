// SPDX-License-Identifier: Apache-2.0
//
// One view of a lock from those of several servers. Pure; any thread.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/lock_view.h"
#include "store/redlock/ballot/messages.h"

namespace distlock::store::ballot {

// The tokens under which servers have an owner.
class Tokens {
 public:
  void Add(uint64_t token);
  // That of most servers; of several such the latest. REQUIRES: one was added.
  uint64_t OfMost() const;

 private:
  absl::InlinedVector<std::pair<uint64_t, size_t>, 3> counts_;
};

// `views`: of the servers that answered, out of `nodes`. A holder is shown when it may have q servers: no answer can
// show more. The places are taken off what holders and waiters say of themselves.
core::LockView MergeViews(std::vector<core::LockView> views, size_t nodes);

}  // namespace distlock::store::ballot
