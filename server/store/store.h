// SPDX-License-Identifier: Apache-2.0
//
// The seam to the store: the verbs that a topology implements. The core's StoreCommands go in; StoreReply, GrantNotice,
// ChangeNotice, ForceNotice, StoreUp, StoreDown and ChannelUp come back as core Inputs. Another kind of store is
// another implementation.
//
// Thread: the thread that holds the shard's loop makes the calls, one at a time; here it is the loop's thread.
// Callbacks run on the thread that runs the loop. Contract: each command with an op gets exactly one StoreReply (a
// reply, failed before it left, or unknown), never from inside Submit. Nothing is delivered after Stop().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/messages.h"

namespace distlock::store {

using core::LockView;

// In a page of locks, of each lock: a page has many.
inline constexpr uint32_t kMaxListedHolders = 16;

struct LockPage {
  std::vector<LockView>
      locks;  // without waiters, with at most kMaxListedHolders holders each; holder_count is complete
  std::string next_page_token;  // "" = the end
  core::Duration held_off{};    // as in LockView
};

// Implemented by the shard. Called on the loop thread.
class StoreListener {
 public:
  virtual ~StoreListener() = default;
  virtual void OnStoreInput(core::Input&& input) = 0;
};

// The part that only reads.
class StoreReader {
 public:
  virtual ~StoreReader() = default;

  // The callback runs exactly once, later, on the loop thread. Unavailable when not connected, DeadlineExceeded after
  // `timeout`, FailedPrecondition for a foreign key.
  virtual void Inspect(const core::LockName& name, uint32_t max_waiters, core::Duration timeout,
                       std::function<void(absl::StatusOr<LockView>)> done) = 0;
  // An empty namespace stands for all of them.
  virtual void List(std::string escaped_namespace, std::string escaped_key_prefix, uint32_t page_size,
                    std::string page_token, core::Duration timeout,
                    std::function<void(absl::StatusOr<LockPage>)> done) = 0;
};

class Store : public StoreReader {
 public:
  // Begins connecting, and keeps reconnecting with jittered back-off until Stop. The listener outlives the store.
  virtual void Start(StoreListener* listener) = 0;

  // Queues a command. Commands of one loop turn leave in one pipeline, in order, at the latest at Flush().
  virtual void Submit(core::StoreCommand&& command) = 0;
  virtual void Flush() = 0;

  // Each server that keeps locks can be used: of several, all and not only enough.
  virtual bool AllServersAreUp() const = 0;

  // Closes all connections; pending callbacks of Inspect and List run with Cancelled before it returns.
  virtual void Stop() = 0;
};

}  // namespace distlock::store
