// SPDX-License-Identifier: Apache-2.0
//
// The lock service: it makes the right reactor for each method. Calls come in on the CallThreads; `frontend` outlives
// it.
#pragma once

#include "distlock/v1/lock_service.grpc.pb.h"
#include "rpc/engine/call_threads.h"
#include "rpc/frontend.h"

namespace distlock::rpc {

template <typename Base>
using RawLockStreams = v1::LockService::WithRawMethod_Hold<v1::LockService::WithRawMethod_Session<
    v1::LockService::WithRawMethod_WatchLock<v1::LockService::WithRawMethod_WatchLocks<Base>>>>;
template <typename Base>
using RawLockCalls =
    v1::LockService::WithRawMethod_Acquire<v1::LockService::WithRawMethod_Renew<v1::LockService::WithRawMethod_Release<
        v1::LockService::WithRawMethod_GetLock<v1::LockService::WithRawMethod_ListLocks<
            v1::LockService::WithRawMethod_CheckToken<v1::LockService::WithRawMethod_Downgrade<Base>>>>>>>;

class LockService final : public RawLockStreams<RawLockCalls<v1::LockService::Service>> {
 public:
  explicit LockService(Frontend& frontend) : frontend_(frontend) {}

  // Starts to accept calls. The server of this service must run already.
  void Open(CallThreads& threads);

 private:
  Frontend& frontend_;
};

}  // namespace distlock::rpc
