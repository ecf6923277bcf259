// SPDX-License-Identifier: Apache-2.0
#include "core/past_grants.h"

#include "core/check.h"

namespace distlock::core {

void PastGrants::Remember(const OwnerId& owner, Instant until, Instant promised_until) {
  DropOld();
  const auto [entry, fresh] = grants_.emplace(owner, Grant{until, promised_until});
  if (!fresh) {
    by_end_.erase({entry->second.until, owner});
    entry->second = {until, promised_until};
  }
  by_end_.emplace(until, owner);
}

void PastGrants::Forget(const OwnerId& owner) {
  const auto found = grants_.find(owner);
  if (found == grants_.end()) return;
  by_end_.erase({found->second.until, owner});
  grants_.erase(found);
}

bool PastGrants::Contains(const OwnerId& owner) {
  DropOld();
  return grants_.contains(owner);
}

size_t PastGrants::size() {
  DropOld();
  return grants_.size();
}

void PastGrants::DropOld() {
  while (!by_end_.empty() && by_end_.begin()->first <= core_.now) {
    grants_.erase(by_end_.begin()->second);
    by_end_.erase(by_end_.begin());
  }
}

bool PastGrants::IsPromised(const OwnerId& owner) const {
  const auto found = grants_.find(owner);
  return found != grants_.end() && found->second.promised_until > core_.now;
}

void PastGrants::Check() const {
  DISTLOCK_CHECK(grants_.size() == by_end_.size());
  for (const auto& [owner, grant] : grants_) {
    DISTLOCK_CHECK(by_end_.contains({grant.until, owner}) && grant.promised_until <= grant.until);
  }
}

}  // namespace distlock::core
