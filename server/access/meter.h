// SPDX-License-Identifier: Apache-2.0
//
// How much one caller uses of this broker, against its quota. All streams and calls of a caller share its Account, so
// opening more of them gains nothing.
//
// Account: any thread. Accounts: not thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "access/policy.h"

namespace distlock::access {

class Account {
 public:
  // 0: no limit.
  void SetQuota(const Quota& quota);

  // One more stream; false: it would be too many, and nothing is counted.
  [[nodiscard]] bool OpenSession();
  void CloseSession() { sessions_.fetch_sub(1, std::memory_order_relaxed); }

  // Whether so many more may wait. The caller counts them by Count.
  bool HasRoom(int64_t more) const;
  // The changes of what the caller holds and waits for.
  void Count(int64_t leases, int64_t waiters);

  // Nanoseconds until the next request may come; 0: it may now, and is counted. `now_ns`: of a clock that never goes
  // back.
  int64_t Take(int64_t now_ns);

  uint32_t session_limit() const { return max_sessions_.load(std::memory_order_relaxed); }
  uint32_t lease_limit() const { return max_leases_.load(std::memory_order_relaxed); }
  uint32_t waiter_limit() const { return max_waiters_.load(std::memory_order_relaxed); }
  uint32_t rate_limit() const { return per_second_.load(std::memory_order_relaxed); }

  int64_t sessions() const { return sessions_.load(std::memory_order_relaxed); }
  int64_t leases() const { return leases_.load(std::memory_order_relaxed); }
  int64_t waiters() const { return waiters_.load(std::memory_order_relaxed); }

  // Nothing is counted, and the rate is that of a new account.
  bool IsIdle(int64_t now_ns) const;

 private:
  std::atomic<uint32_t> max_sessions_ = 0;
  std::atomic<uint32_t> max_leases_ = 0;
  std::atomic<uint32_t> max_waiters_ = 0;
  std::atomic<uint32_t> per_second_ = 0;

  std::atomic<int64_t> sessions_ = 0;
  std::atomic<int64_t> leases_ = 0;
  std::atomic<int64_t> waiters_ = 0;
  std::atomic<int64_t> free_at_ns_ = 0;  // when the requests so far are paid for, at per_second_
};

class Accounts {
 public:
  // The account of this caller, made where there is none, with this quota.
  std::shared_ptr<Account> Of(const std::string& name, const Quota& quota, int64_t now_ns);
  // The caller has no quota any more.
  void Free(const std::string& name);
  size_t size() const { return accounts_.size(); }

 private:
  static constexpr size_t kFirstSweep = 64;
  absl::flat_hash_map<std::string, std::shared_ptr<Account>> accounts_;
  size_t sweep_at_ = kFirstSweep;
};

}  // namespace distlock::access
