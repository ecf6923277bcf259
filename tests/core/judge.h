// SPDX-License-Identifier: Apache-2.0
//
// What must hold in every simulated world, checked while it runs: nobody believes in a lock that the store no longer holds
// for it, so no two believe at once; tokens grow; each request is answered once; and, in calm worlds, arrival order, no
// false alarm and no loss. What the store was made to forget is excused for the leases it then held.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/messages.h"

namespace distlock::core {

class Judge {
 public:
  // calm: nothing goes wrong. gentle: nothing but a store that is emptied.
  Judge(bool calm, bool gentle, Duration validity, std::function<Instant()> now,
        std::function<const OwnerId*(const LockName&)> holder, std::function<void(std::string)> fail);

  // The store.
  void Granted(const LockName& name, const OwnerId& owner, uint64_t token);
  void Freed(const LockName& name, const OwnerId& owner);
  void Queued(const LockName& name, const OwnerId& owner);
  // By its ttl, when nothing has gone wrong for `quiet`.
  void Expired(const LockName& name, const OwnerId& owner, Duration quiet);
  void Withdrawn(const OwnerId& owner) { places_.erase(owner); }
  void StoreEmptied() { ++epoch_; }
  void Excuse(const OwnerId& owner) { excused_.insert(owner); }

  // Clients.
  void Believe(const LockName& name, const OwnerId& owner, Instant until);
  void Disbelieve(const OwnerId& owner) { beliefs_.erase(owner); }

  // Requests and answers, as a broker sees and gives them.
  void Asked(int node, const Acquire& acquire);
  void Called(SessionId session, RequestId request);  // a Release or Renew
  void Told(const Notify& notify);
  void StreamOver(SessionId session);
  void NodeDied(int node);
  void ExpectAllAnswered();

  uint64_t grants() const { return grants_; }

 private:
  using Key = std::pair<SessionId, RequestId>;
  struct Ask {
    int node = 0;
    uint64_t arrival = 0;
    LockName name;
    OwnerId owner{};
    bool detached = false;
    bool one_try = false;
    bool capped = false;      // has a max_hold
    bool told_place = false;
    bool granted = false;
    bool over = false;
  };
  // In the order of arrival at the store; also of those who got it at once.
  struct Place {
    uint64_t order = 0;
    uint64_t epoch = 0;       // how often the store had been emptied
  };
  // Who must see to it that the store is told of the end.
  struct Keeper {
    int node = 0;
    Duration keep{};
  };
  struct Belief {
    LockName name;
    Instant until{};
  };

  void TellGranted(Ask& ask, const core::Granted& granted);
  void TellAboutLease(Ask& ask, const Notify& notify);
  void Fail(const std::string& what, const LockName& name, const OwnerId& owner);

  const bool calm_;
  const bool gentle_;
  const Duration validity_;
  const std::function<Instant()> now_;
  const std::function<const OwnerId*(const LockName&)> holder_;
  const std::function<void(std::string)> fail_;
  std::map<LockName, uint64_t> last_token_;
  std::map<OwnerId, std::set<uint64_t>> tokens_;
  std::map<OwnerId, Belief> beliefs_;
  std::set<OwnerId> excused_;
  std::map<Key, Ask> asks_;
  std::map<OwnerId, Key> by_owner_;
  std::map<OwnerId, Place> places_;
  std::map<OwnerId, Keeper> keepers_;
  std::set<Key> calls_;
  std::set<SessionId> over_;  // ended: nobody listens, whatever still arrives or is answered
  uint64_t arrivals_ = 0;
  uint64_t orders_ = 0;
  uint64_t epoch_ = 1;
  uint64_t grants_ = 0;
};

std::string Short(const OwnerId& owner);

}  // namespace distlock::core
