// SPDX-License-Identifier: Apache-2.0
//
// The lock service: method to reactor, nothing else. Called on gRPC's threads; `frontend` outlives it.
#pragma once

#include "distlock/v1/lock_service.grpc.pb.h"
#include "rpc/frontend.h"

namespace distlock::rpc {

template <typename Base>
using RawLockStreams = v1::LockService::WithRawCallbackMethod_Hold<
    v1::LockService::WithRawCallbackMethod_Session<v1::LockService::WithRawCallbackMethod_WatchLock<Base>>>;
template <typename Base>
using RawLockCalls = v1::LockService::WithRawCallbackMethod_Acquire<
    v1::LockService::WithRawCallbackMethod_Renew<v1::LockService::WithRawCallbackMethod_Release<
        v1::LockService::WithRawCallbackMethod_GetLock<v1::LockService::WithRawCallbackMethod_ListLocks<
            v1::LockService::WithRawCallbackMethod_Convert<Base>>>>>>;

class LockService final : public RawLockStreams<RawLockCalls<v1::LockService::Service>> {
 public:
  explicit LockService(Frontend& frontend) : frontend_(frontend) {}

  using Context = grpc::CallbackServerContext;
  using Bytes = grpc::ByteBuffer;

  grpc::ServerWriteReactor<Bytes>* Hold(Context* context, const Bytes* request) override;
  grpc::ServerBidiReactor<Bytes, Bytes>* Session(Context* context) override;
  grpc::ServerWriteReactor<Bytes>* WatchLock(Context* context, const Bytes* request) override;
  grpc::ServerUnaryReactor* Acquire(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerUnaryReactor* Renew(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerUnaryReactor* Release(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerUnaryReactor* Convert(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerUnaryReactor* GetLock(Context* context, const Bytes* request, Bytes* response) override;
  grpc::ServerUnaryReactor* ListLocks(Context* context, const Bytes* request, Bytes* response) override;

 private:
  Frontend& frontend_;
};

}  // namespace distlock::rpc
