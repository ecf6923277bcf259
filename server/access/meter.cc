// SPDX-License-Identifier: Apache-2.0
#include "access/meter.h"

#include <algorithm>

namespace distlock::access {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

void Account::SetQuota(const Quota& quota) {
  max_sessions_.store(quota.sessions.value_or(0), std::memory_order_relaxed);
  max_leases_.store(quota.leases.value_or(0), std::memory_order_relaxed);
  max_waiters_.store(quota.waiters.value_or(0), std::memory_order_relaxed);
  per_second_.store(quota.requests_per_second.value_or(0), std::memory_order_relaxed);
}

bool Account::OpenSession() {
  const uint32_t most = session_limit();
  const int64_t before = sessions_.fetch_add(1, std::memory_order_relaxed);
  if (most == 0 || before < most) return true;
  CloseSession();
  return false;
}

bool Account::HasRoom(int64_t more) const {
  const uint32_t most_leases = lease_limit();
  const uint32_t most_waiters = waiter_limit();
  if (most_leases != 0 && leases() >= most_leases) return false;
  return most_waiters == 0 || waiters() + more <= most_waiters;
}

void Account::Count(int64_t leases, int64_t waiters) {
  if (leases != 0) leases_.fetch_add(leases, std::memory_order_relaxed);
  if (waiters != 0) waiters_.fetch_add(waiters, std::memory_order_relaxed);
}

int64_t Account::Take(int64_t now_ns) {
  const uint32_t per_second = rate_limit();
  if (per_second == 0) return 0;
  const int64_t each = kSecond / per_second;
  int64_t paid = free_at_ns_.load(std::memory_order_relaxed);
  while (true) {
    // One second's worth may come at once.
    const int64_t free_at = std::max(paid, now_ns) + each;
    if (free_at - now_ns > kSecond) return free_at - now_ns - kSecond;
    if (free_at_ns_.compare_exchange_weak(paid, free_at, std::memory_order_relaxed)) return 0;
  }
}

bool Account::IsIdle(int64_t now_ns) const {
  return sessions() == 0 && leases() == 0 && waiters() == 0 && free_at_ns_.load(std::memory_order_relaxed) <= now_ns;
}

void Accounts::Free(const std::string& name) {
  const auto found = accounts_.find(name);
  if (found != accounts_.end()) found->second->SetQuota({});
}

std::shared_ptr<Account> Accounts::Of(const std::string& name, const Quota& quota, int64_t now_ns) {
  if (accounts_.size() >= sweep_at_) {
    absl::erase_if(accounts_,
                   [now_ns](const auto& one) { return one.second.use_count() == 1 && one.second->IsIdle(now_ns); });
    sweep_at_ = std::max(kFirstSweep, 2 * accounts_.size());
  }
  std::shared_ptr<Account>& account = accounts_[name];
  if (account == nullptr) account = std::make_shared<Account>();
  account->SetQuota(quota);
  return account;
}

}  // namespace distlock::access
