// SPDX-License-Identifier: Apache-2.0
#include "rpc/lock_service.h"

#include "rpc/call/lock_calls.h"
#include "rpc/stream/hold.h"
#include "rpc/stream/session.h"
#include "rpc/stream/watch.h"
#include "rpc/stream/watch_locks.h"

namespace distlock::rpc {

void LockService::Open(CallThreads& threads) {
  threads.OpenBidi(*this, &LockService::RequestSession,
                   [this](auto call) { SessionCall::Serve<SessionCall>(frontend_, std::move(call)); });
  threads.OpenStream(*this, &LockService::RequestHold,
                     [this](auto call) { HoldCall::Serve<HoldCall>(frontend_, std::move(call)); });
  threads.OpenStream(*this, &LockService::RequestWatchLock,
                     [this](auto call) { WatchCall::Serve<WatchCall>(frontend_, std::move(call)); });
  threads.OpenStream(*this, &LockService::RequestWatchLocks,
                     [this](auto call) { WatchLocksCall::Serve<WatchLocksCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &LockService::RequestAcquire,
                    [this](auto call) { UnaryCall::Serve<AcquireCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &LockService::RequestRenew,
                    [this](auto call) { UnaryCall::Serve<RenewCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &LockService::RequestRelease,
                    [this](auto call) { UnaryCall::Serve<ReleaseCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &LockService::RequestDowngrade,
                    [this](auto call) { UnaryCall::Serve<DowngradeCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &LockService::RequestGetLock,
                    [this](auto call) { UnaryCall::Serve<GetLockCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &LockService::RequestListLocks,
                    [this](auto call) { UnaryCall::Serve<ListLocksCall>(frontend_, std::move(call)); });
  threads.OpenUnary(*this, &LockService::RequestCheckToken,
                    [this](auto call) { UnaryCall::Serve<CheckTokenCall>(frontend_, std::move(call)); });
}

}  // namespace distlock::rpc
