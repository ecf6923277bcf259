// SPDX-License-Identifier: Apache-2.0
//
// Broker: who asks for what a waiter waits for. Several do when a detached request is repeated, or a session asks again for what it
// may have more than once.
#include <algorithm>

#include "core/broker.h"
#include "core/refusal_causes.h"

namespace distlock::core {

Asker Broker::AskerOf(const Acquire& in) const {
  Asker asker{.listener = {in.session, in.request}, .arrived = now_};
  asker.one_try = in.max_wait && *in.max_wait == Duration::zero();
  if (in.max_wait) asker.deadline = now_ + (asker.one_try ? config_.store_timeout : *in.max_wait);
  return asker;
}

// Never empty while it waits.
std::vector<Asker>& Broker::AskersOf(Waiter& waiter) {
  return waiter.bundle != nullptr ? waiter.bundle->callers : waiter.askers;
}

// A repeat of a detached request that still waits here gets its answer, but waits only as long as it says itself. All else
// is as the first has it.
bool Broker::JoinRepeat(const Acquire& in) {
  const auto found = waiters_.find(in.owner);
  if (found == waiters_.end()) return false;
  if (found->second->bundle != nullptr) {
    Note({.kind = FactKind::kRefused, .refusal = RefusalReason::kInvalidArgument, .name = in.name, .detail = {}});
    Tell({in.session, in.request},
         Refused{.reason = RefusalReason::kInvalidArgument, .cause = kRequestIdInUse, .holders = {}});
    return true;
  }
  detached_.emplace(in.session, found->second.get());
  Join(*found->second, in);
  return true;
}

// One more asks for what is waited for already.
void Broker::Join(Waiter& waiter, const Acquire& in) {
  AskersOf(waiter).push_back(AskerOf(in));
  if (waiter.queued) {
    const LocalQueue& queue = *queues_.at(waiter.spec.name);
    TurnAwayOneTries(waiter, queue.holders, LookIn(std::nullopt, queue.holders),
                     static_cast<uint32_t>(queue.waiters.size()));
  }
  ArmWaiter(waiter);
}

// Nobody waits for it under this name any more.
void Broker::Unlist(const Waiter& waiter, const Listener& listener) {
  if (waiter.spec.detached) {
    detached_.erase(listener.session);
  } else if (const auto session = sessions_.find(listener.session); session != sessions_.end()) {
    session->second->waiters.erase(listener.request);
  }
}

// A detached call is over: nobody listens under this session any more.
void Broker::DropListener(Waiter& waiter, SessionId session) {
  if (waiter.askers.size() == 1) return Withdraw(waiter);
  detached_.erase(session);
  std::erase_if(waiter.askers, [session](const Asker& asker) { return asker.listener.session == session; });
}

}  // namespace distlock::core
