// SPDX-License-Identifier: Apache-2.0
//
// The content of `top`: LockSource asks the broker for it, Picture turns it into lines of text. Does not touch the
// terminal. One thread.
#pragma once

#include <distlock/admin.h>
#include <distlock/inspect.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "context.h"

namespace distlock::cli {

// The broker's last answers. A call that fails leaves the previous answer in place.
struct Seen {
  BrokerStatus status;
  std::vector<LockInfo> locks;
  bool more_locks = false;           // `locks` is not complete
  std::optional<Duration> hold_off;  // nobody is newly granted a lock for so long
  size_t streams = 0;                // open Session and Hold streams
  double grants_per_s = 0;           // locks whose token changed since the look before, per second
  std::optional<Failure> failure;
};

class LockSource {
 public:
  LockSource(const Context& context, Client& client);

  // Asks the broker once. False: it failed, and seen().failure says why.
  bool Look(const std::string& name_space);
  const Seen& seen() const { return seen_; }

 private:
  // Nothing on success.
  std::optional<Refusal> LookAtStatus();
  std::optional<Refusal> LookAtLocks(const std::string& name_space);
  std::optional<Refusal> LookAtStreams();
  void CountGrants(const std::vector<LockInfo>& before);

  const Context& context_;
  Admin admin_;
  Inspector inspector_;
  Seen seen_;
  std::optional<std::chrono::steady_clock::time_point> looked_at_;
};

struct View {
  enum class Order { kQueue, kHolders, kName };
  static constexpr int kOrders = 3;

  std::string name_space;
  Order order = Order::kQueue;
  size_t first = 0;                   // index of the lock at the top of the list
  size_t rows = 24;                   // lines on the screen
  std::optional<std::string> typing;  // a namespace that is being typed
  bool obeys_keys = true;             // says which
};

inline constexpr size_t kHeadingRow = 3;

// At most view.rows lines; the row kHeadingRow names the columns.
std::vector<std::string> Picture(const Seen& seen, const View& view);

}  // namespace distlock::cli
