// SPDX-License-Identifier: Apache-2.0
//
// Inspector: who holds locks and who waits for them. It changes nothing. Bound to a client; copies are cheap and equal.
// Thread-safe. It may outlive its Client; calls are then refused with kClientClosed.
//
// Each call blocks its thread for one round trip, within ClientOptions::call_timeout, over the connection that all
// calls with one answer of the Client share; kUnreachable: no broker answered. Refused with kWouldDeadlock in a
// callback of the library.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "distlock/types.h"

namespace distlock {

class Client;

namespace internal {
class Core;
}

// For `lock_namespace` of List and WatchAll: all namespaces.
inline constexpr char kAllNamespaces[] = "-";

// A waiter for a lock.
struct Waiter {
  std::string waiter_id;  // becomes its holder_id when it is granted
  std::string owner;
  std::map<std::string, std::string> metadata;
  LockMode mode = LockMode::kExclusive;
  int32_t permits = 0;                                              // kPermit only
  std::optional<std::chrono::system_clock::time_point> start_time;  // by the store's clock
  std::string broker_id;
};

// A lock as the store knows it. Counts are complete; lists hold the first ones.
struct LockInfo {
  std::string lock_namespace;
  std::string key;
  std::vector<Holder> holders;  // in the order of their grants
  std::vector<Waiter> waiters;  // in the order of the queue
  int32_t holder_count = 0;
  int32_t queue_length = 0;
  int64_t fencing_token = 0;       // of the latest grant; 0: not known any more
  std::optional<LockBlock> block;  // set while nobody may have it
  // Look sets it: no lock is newly granted for so long, since the store may have forgotten a holder.
  std::optional<Duration> hold_off;

  bool held() const { return holder_count > 0; }
};

struct LockPage {
  std::vector<LockInfo> locks;       // without waiters, and with at most 16 holders each
  std::string next_page_token;       // "": the end. A page may be empty although more follow
  std::optional<Duration> hold_off;  // as in LockInfo, of the server that the page was read from
};

struct TokenCheck {
  bool newest = false;       // no newer token has been given
  int64_t newest_token = 0;  // 0: not known
};

// A watch's way when its stream ends: the broker drains, or cannot be reached any more.
enum class WhenInterrupted {
  kTryAgain,  // goes on at a broker that answers, with pauses, and tells the present state again
  kReturn,    // returns why: kDraining, or kUnreachable
};

class Inspector {
 public:
  explicit Inspector(Client& client);

  // With at most `max_waiters` (0..1000) waiters.
  Result<LockInfo> Look(const std::string& key, const std::string& lock_namespace = "", int32_t max_waiters = 100);

  // The locks that are held or waited for. `page_size`: 1..1000.
  Result<LockPage> List(const std::string& key_prefix = "", const std::string& lock_namespace = "",
                        const std::string& page_token = "", int32_t page_size = 1000);

  // Whether the token is the newest of its lock, for a resource that cannot compare tokens by itself.
  Result<TokenCheck> CheckToken(const std::string& key, int64_t token, const std::string& lock_namespace = "");

  // Calls `on_change` on this thread with the lock, at once and after each change. Returns when `stop` is requested
  // (kCancelled), when the Client is destroyed (kClientClosed), or with a refusal that no further attempt can change.
  // `then`: what to do while no broker can be reached. `on_change` may block; what it throws is passed on.
  Refusal Watch(const std::string& key, const std::function<void(const LockInfo&)>& on_change, std::stop_token stop,
                const std::string& lock_namespace = "", WhenInterrupted then = WhenInterrupted::kTryAgain);

  // The same for all locks of a prefix: first those that are taken, in any order, then each that changes. A lock that
  // is free has no holder, waiter or block. After an interruption all that are taken are told again.
  Refusal WatchAll(const std::string& key_prefix, const std::function<void(const LockInfo&)>& on_change,
                   std::stop_token stop, const std::string& lock_namespace = "",
                   WhenInterrupted then = WhenInterrupted::kTryAgain);

 private:
  std::shared_ptr<internal::Core> core_;
};

}  // namespace distlock
