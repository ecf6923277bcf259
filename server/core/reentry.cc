// SPDX-License-Identifier: Apache-2.0
//
// Broker: leases that their session takes more than once. The store knows of one lease; how often it was taken is counted here.
#include <algorithm>

#include "core/broker.h"
#include "core/check.h"
#include "core/refusal_causes.h"

namespace distlock::core {
namespace {

std::string WhyNot(const Want& has, const Want& wants) {
  if (has.mode == Mode::kShared && wants.mode == Mode::kExclusive) return kNoUpgrade;
  if (has.mode == Mode::kExclusive && wants.mode == Mode::kShared) {
    return "it is held EXCLUSIVE under this owner; convert it to SHARED, or take it again EXCLUSIVE";
  }
  return "it is held in another mode, or with other permits, under this owner; take it again as it is held";
}

}  // namespace

// Answers an acquire of what this session has, or waits for, under the same label. False: it has no such.
bool Broker::Reenter(Session& session, const Acquire& in) {
  const auto known = session.reentrant.find({in.name, in.reentry});
  if (known == session.reentrant.end()) return false;
  const auto lease = leases_.find(known->second);
  const auto waiter = waiters_.find(known->second);
  DISTLOCK_CHECK((lease == leases_.end()) != (waiter == waiters_.end()));
  const Want& has = lease != leases_.end() ? lease->second->reentry->want : waiter->second->spec.want;
  if (has.mode != in.want.mode || has.permits != in.want.permits || has.limit != in.want.limit) {
    Note({.kind = FactKind::kRefused, .refusal = RefusalReason::kNotSupported, .name = in.name, .detail = {}});
    Tell({in.session, in.request},
         Refused{.reason = RefusalReason::kNotSupported, .cause = WhyNot(has, in.want), .holders = {}});
  } else if (lease != leases_.end()) {
    TakeAgain(session, *lease->second, in.request, Duration::zero());
  } else {
    session.waiters.emplace(in.request, waiter->second.get());
    Join(*waiter->second, in);
  }
  return true;
}

void Broker::TakeAgain(Session& session, Lease& lease, RequestId request, Duration waited) {
  session.leases.emplace(request, &lease);
  lease.reentry->others.push_back(request);
  Granted granted{.name = lease.name,
                  .mode = lease.reentry->want.mode,
                  .owner = lease.owner,
                  .token = lease.token,
                  .ttl = lease.ttl,
                  .waited = waited,
                  .hold_count = static_cast<uint32_t>(lease.reentry->others.size() + 1)};
  Promise(session, lease, granted);
  Note({.kind = FactKind::kGranted, .value = waited, .name = lease.name, .detail = {}});
  Tell({session.id, request}, std::move(granted));
}

// One request gives up what others still have. False: it is the last one.
bool Broker::LeaveOne(Lease& lease, RequestId request) {
  if (lease.reentry == nullptr || lease.reentry->others.empty()) return false;
  std::vector<RequestId>& others = lease.reentry->others;
  if (lease.listener.request == request) {
    lease.listener.request = others.front();
    others.erase(others.begin());
  } else {
    std::erase(others, request);
  }
  sessions_.at(lease.listener.session)->leases.erase(request);
  return true;
}

void Broker::TellHolder(const Lease& lease, const Event& event) {
  Tell(lease.listener, event);
  if (lease.reentry == nullptr) return;
  for (const RequestId other : lease.reentry->others) Tell({lease.listener.session, other}, event);
}

// Nobody holds it under any request any more.
void Broker::Unlist(Lease& lease) {
  const auto found = sessions_.find(lease.listener.session);
  lease.listener.session = 0;
  if (found == sessions_.end()) return;
  Session& session = *found->second;
  session.leases.erase(lease.listener.request);
  if (lease.reentry == nullptr) return;
  for (const RequestId other : lease.reentry->others) session.leases.erase(other);
  session.reentrant.erase({lease.name, lease.reentry->label});
}

// Each once.
std::vector<Lease*> Broker::LeasesOf(const Session& session) {
  std::vector<Lease*> leases;
  for (const auto& [request, lease] : session.leases) {
    if (lease->listener.request == request) leases.push_back(lease);
  }
  return leases;
}

}  // namespace distlock::core
