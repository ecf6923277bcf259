// SPDX-License-Identifier: Apache-2.0
//
// One Session call. Made by the Core, deletes itself in OnDone; keeps the Core alive until then.
//
// OnDone comes only after AllowFinish. The Core counts the operations that are being started or in flight. It calls
// AllowFinish when the stream is broken and none is left, and does not use this object afterwards. At most one write
// and one read are in flight.
#pragma once

#include <google/protobuf/arena.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>
#include <utility>

#include "bidi_call.h"
#include "command_queue.h"
#include "distlock/v1/lock_service.grpc.pb.h"
#include "effects.h"

namespace distlock::internal {

class Core;

class Stream final : public BidiCall<v1::SessionRequest, v1::SessionResponse> {
 public:
  // `link`: of the table, that it serves.
  Stream(std::shared_ptr<Core> core, int link);

  // Opens the call with `first` as its first message. Once.
  void Start(v1::LockService::Stub& stub, CallThread& thread, std::unique_ptr<Batch> first);
  // Before Start: shows the broker at `address` who this is, if DISTLOCK_TOKEN_FILE says so.
  void Authorize(const std::string& address);
  void Write(std::unique_ptr<Batch> batch);
  std::unique_ptr<Batch> TakeWritten() { return std::move(writing_); }
  void Cancel() { context().TryCancel(); }
  int link() const { return link_; }

  // How the Core uses the stream. Guarded by the Core's mutex.
  struct Use {
    int operations = 1;   // being started or in flight; Start is the first
    bool writing = true;  // Start writes
    bool broken = false;
    bool ended = false;

    // True once, when the stream is broken and no operation is left. The caller then unlocks the mutex and calls
    // AllowFinish().
    bool Ends() { return broken && operations == 0 && !std::exchange(ended, true); }
  };
  Use use;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void Read();

  static constexpr size_t kFirstBlock = 32 << 10;

  const std::shared_ptr<Core> core_;
  const int link_;
  std::unique_ptr<Batch> writing_;
  const std::unique_ptr<char[]> block_;
  google::protobuf::Arena arena_;  // of the response that is read
  v1::SessionResponse* response_ = nullptr;
  Effects fx_;
};

}  // namespace distlock::internal
