// SPDX-License-Identifier: Apache-2.0
//
// Leases: those that their session takes more than once. The store knows of one lease; the broker counts the requests.
#include <algorithm>
#include <utility>

#include "core/leases.h"

namespace distlock::core {

void Leases::Reacquire(Session& session, Lease& lease, RequestId request, Duration waited) {
  lease.reentry->others.push_back(request);
  Granted granted{.name = lease.name,
                  .mode = lease.reentry->want.mode,
                  .owner = lease.owner,
                  .token = lease.token,
                  .ttl = lease.ttl,
                  .waited = core_.Shortened(waited),
                  .hold_count = static_cast<uint32_t>(lease.reentry->others.size() + 1),
                  .replicas = core_.config.store.replicas};
  core_.Note({.kind = FactKind::kGranted, .value = waited, .name = lease.name});
  sessions_.Give(session, request, lease, std::move(granted));
}

bool Leases::LeaveOne(Lease& lease, RequestId request) {
  if (lease.reentry == nullptr || lease.reentry->others.empty()) return false;
  std::vector<RequestId>& others = lease.reentry->others;
  if (lease.listener.request == request) {
    lease.listener.request = others.front();
    others.erase(others.begin());
  } else {
    std::erase(others, request);
  }
  sessions_.Find(lease.listener.session)->leases.erase(request);
  return true;
}

void Leases::TellHolder(const Lease& lease, const Event& event) {
  core_.Tell(lease.listener, event);
  if (lease.reentry == nullptr) return;
  for (const RequestId other : lease.reentry->others) core_.Tell({lease.listener.session, other}, event);
}

// Takes the lease from its session, under all requests that have it.
void Leases::Unlist(Lease& lease) {
  Session* const found = sessions_.Find(lease.listener.session);
  lease.listener.session = 0;
  if (found == nullptr) return;
  Session& session = *found;
  session.leases.erase(lease.listener.request);
  if (lease.reentry == nullptr) return;
  for (const RequestId other : lease.reentry->others) session.leases.erase(other);
  session.reentrant.erase({lease.name, lease.reentry->label});
}

std::vector<Lease*> Leases::Of(const Session& session) {
  std::vector<Lease*> leases;
  for (const auto& [request, lease] : session.leases) {
    if (lease->listener.request == request) leases.push_back(lease);
  }
  return leases;
}

}  // namespace distlock::core
