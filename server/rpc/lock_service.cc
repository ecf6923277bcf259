// SPDX-License-Identifier: Apache-2.0
#include "rpc/lock_service.h"

#include "rpc/hold.h"
#include "rpc/lock_calls.h"
#include "rpc/refusal.h"
#include "rpc/session.h"

namespace distlock::rpc {
namespace {

// Ends at once.
class NotSupportedStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  NotSupportedStream(Admission& admission, const char* message) : admission_(admission) {
    admission_.CallBegins();
    Finish(StatusOf(MakeRefusal(core::RefusalReason::kNotSupported, message)));
  }

 private:
  void OnDone() override {
    Admission& admission = admission_;
    delete this;
    admission.CallEnds();
  }

  Admission& admission_;
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* LockService::Hold(Context* context, const Bytes* request) {
  return HoldCall::Serve<HoldCall>(frontend_, context, request);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* LockService::Session(Context* context) {
  return SessionCall::Serve<SessionCall>(frontend_, context);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* LockService::WatchLock(Context*, const Bytes*) {
  return new NotSupportedStream(frontend_.admission,
                                "this version does not support WatchLock; call GetLock when you need to know");
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
