// SPDX-License-Identifier: Apache-2.0
//
// Events of locks that are spread over the nodes of a Cluster, for metrics. Values; the callbacks run on the loop's
// thread.
#pragma once

#include <cstdint>
#include <functional>

namespace distlock::store {

struct ClusterEvents {
  // A node's answer instead of running a command: the lock is at another node; at another this once; its keys are at
  // two nodes now; nobody serves it now.
  enum class Redirect : uint8_t { kMoved, kAsk, kTryAgain, kClusterDown };
  // The fate of a question for the slots. kDoubted: the answer covers so little that another node is asked, too.
  enum class Refresh : uint8_t { kAdopted, kDoubted, kFailed };

  std::function<void(Redirect)> on_redirect;  // unset: nobody counts
  std::function<void(Refresh)> on_refresh;
};

}  // namespace distlock::store
