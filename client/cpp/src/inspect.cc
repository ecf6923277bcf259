// SPDX-License-Identifier: Apache-2.0
#include "distlock/inspect.h"

#include <utility>

#include "distlock/client.h"
#include "distlock/wire/times.h"
#include "leader_lookup.h"
#include "unary_call.h"

namespace distlock {
namespace {

using internal::Lookups;

Waiter ToWaiter(const v1::Waiter& wire) {
  Waiter waiter;
  waiter.waiter_id = wire.waiter_id();
  waiter.owner = wire.owner();
  waiter.metadata.insert(wire.metadata().begin(), wire.metadata().end());
  if (wire.mode() != v1::LOCK_MODE_UNSPECIFIED) waiter.mode = static_cast<LockMode>(wire.mode());
  waiter.permits = wire.permits();
  if (wire.has_start_time()) waiter.start_time = wire::FromProto(wire.start_time());
  waiter.broker_id = wire.broker_id();
  return waiter;
}

LockInfo ToLockInfo(const v1::LockInfo& wire) {
  LockInfo lock;
  lock.lock_namespace = wire.namespace_();
  lock.key = wire.key();
  for (const v1::Holder& holder : wire.holders()) lock.holders.push_back(internal::ToHolder(holder));
  for (const v1::Waiter& waiter : wire.waiters()) lock.waiters.push_back(ToWaiter(waiter));
  lock.holder_count = wire.holder_count();
  lock.queue_length = wire.queue_length();
  lock.fencing_token = wire.fencing_token();
  if (wire.has_block()) {
    lock.block = LockBlock{.start_time = wire::FromProto(wire.block().start_time()),
                           .time_left = wire::FromProto(wire.block().time_left()),
                           .owner = wire.block().owner(),
                           .min_hold = wire::FromProto(wire.block().min_hold()),
                           .acquire_time = wire::FromProto(wire.block().acquire_time())};
  }
  return lock;
}

Refusal FromCallback() {
  return {.reason = RefusalReason::kWouldDeadlock, .message = "called from a callback; watch from a thread"};
}

}  // namespace

Inspector::Inspector(Client& client) : core_(client.core_) {}

Result<LockInfo> Inspector::Look(const std::string& key, const std::string& lock_namespace, int32_t max_waiters) {
  v1::GetLockRequest request;
  request.set_namespace_(lock_namespace);
  request.set_key(key);
  request.set_max_waiters(max_waiters);
  const auto answer = internal::Call<v1::GetLockResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.locks->GetLock(args...); }, request);
  if (!answer.ok()) return answer.refusal();
  LockInfo lock = ToLockInfo(answer->lock());
  if (answer->has_hold_off()) lock.hold_off = wire::FromProto(answer->hold_off());
  return lock;
}

Result<LockPage> Inspector::List(const std::string& key_prefix, const std::string& lock_namespace,
                                 const std::string& page_token, int32_t page_size) {
  v1::ListLocksRequest request;
  request.set_namespace_(lock_namespace);
  request.set_key_prefix(key_prefix);
  request.set_page_token(page_token);
  request.set_page_size(page_size);
  const auto answer = internal::Call<v1::ListLocksResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.locks->ListLocks(args...); }, request);
  if (!answer.ok()) return answer.refusal();
  LockPage page;
  for (const v1::LockInfo& lock : answer->locks()) page.locks.push_back(ToLockInfo(lock));
  page.next_page_token = answer->next_page_token();
  if (answer->has_hold_off()) page.hold_off = wire::FromProto(answer->hold_off());
  return page;
}

Result<TokenCheck> Inspector::CheckToken(const std::string& key, int64_t token, const std::string& lock_namespace) {
  v1::CheckTokenRequest request;
  request.set_namespace_(lock_namespace);
  request.set_key(key);
  request.set_fencing_token(token);
  const auto answer = internal::Call<v1::CheckTokenResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.locks->CheckToken(args...); }, request);
  if (!answer.ok()) return answer.refusal();
  return TokenCheck{.newest = answer->newest(), .newest_token = answer->newest_token()};
}

Refusal Inspector::Watch(const std::string& key, const std::function<void(const LockInfo&)>& on_change,
                         std::stop_token stop, const std::string& lock_namespace, WhenInterrupted then) {
  if (internal::OnLibraryThread()) return FromCallback();
  return internal::LeaderLookup(core_, lock_namespace, key)
      .Observe([&](const v1::LockInfo& lock) { on_change(ToLockInfo(lock)); }, stop, then);
}

Refusal Inspector::WatchAll(const std::string& key_prefix, const std::function<void(const LockInfo&)>& on_change,
                            std::stop_token stop, const std::string& lock_namespace, WhenInterrupted then) {
  if (internal::OnLibraryThread()) return FromCallback();
  v1::WatchLocksRequest request;
  request.set_namespace_(lock_namespace);
  request.set_key_prefix(key_prefix);
  if (auto refusal = internal::NotUtf8(request)) return *std::move(refusal);
  const auto watch = [&](Lookups::Connection& connection, const std::stop_token& end) {
    grpc::ClientContext call;
    connection.Authorize(call);
    const std::stop_callback on_stop(end, [&] { call.TryCancel(); });
    const auto stream = connection.locks->WatchLocks(&call, request);
    v1::WatchLocksResponse response;
    while (stream->Read(&response)) {
      for (const v1::LockInfo& lock : response.locks()) on_change(ToLockInfo(lock));
    }
    return stream->Finish();
  };
  return internal::WatchAgainAndAgain(*core_, watch, stop, then);
}

}  // namespace distlock
