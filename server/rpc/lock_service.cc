// SPDX-License-Identifier: Apache-2.0
#include "rpc/lock_service.h"

#include "rpc/hold.h"
#include "rpc/lock_calls.h"
#include "rpc/session.h"
#include "rpc/watch.h"

namespace distlock::rpc {
grpc::ServerWriteReactor<grpc::ByteBuffer>* LockService::Hold(Context* context, const Bytes* request) {
  return HoldCall::Serve<HoldCall>(frontend_, context, request);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* LockService::Session(Context* context) {
  return SessionCall::Serve<SessionCall>(frontend_, context);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* LockService::WatchLock(Context* context, const Bytes* request) {
  return WatchCall::Serve<WatchCall>(frontend_, context, request);
}

grpc::ServerUnaryReactor* LockService::Acquire(Context* context, const Bytes* request, Bytes* response) {
  return UnaryCall::Serve<AcquireCall>(frontend_, context, request, response);
}

grpc::ServerUnaryReactor* LockService::Renew(Context* context, const Bytes* request, Bytes* response) {
  return UnaryCall::Serve<RenewCall>(frontend_, context, request, response);
}

grpc::ServerUnaryReactor* LockService::Release(Context* context, const Bytes* request, Bytes* response) {
  return UnaryCall::Serve<ReleaseCall>(frontend_, context, request, response);
}

grpc::ServerUnaryReactor* LockService::Convert(Context* context, const Bytes* request, Bytes* response) {
  return UnaryCall::Serve<ConvertCall>(frontend_, context, request, response);
}

grpc::ServerUnaryReactor* LockService::GetLock(Context* context, const Bytes* request, Bytes* response) {
  return UnaryCall::Serve<GetLockCall>(frontend_, context, request, response);
}

grpc::ServerUnaryReactor* LockService::ListLocks(Context* context, const Bytes* request, Bytes* response) {
  return UnaryCall::Serve<ListLocksCall>(frontend_, context, request, response);
}

}  // namespace distlock::rpc
