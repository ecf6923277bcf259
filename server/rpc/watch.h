// SPDX-License-Identifier: Apache-2.0
//
// WatchLock: one lock on one stream, shown at first and upon each change. What a slow reader has not taken yet gives way
// to the newest, so there is no more to keep than that.
//
// Thread: gRPC's reactions, and OnEvents on the shard's thread; see StreamCall for the rest.
#pragma once

#include <optional>
#include <vector>

#include "rpc/stream_call.h"

namespace distlock::rpc {

class WatchCall final : public StreamCall<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  WatchCall(Frontend& frontend, grpc::CallbackServerContext* context, const grpc::ByteBuffer* request)
      : StreamCall(frontend, context), request_(request) {}

  void OnEvents(int shard, std::vector<core::Notify> events) override;

 private:
  struct Waiting {
    core::LockView view;
    core::Instant since;
  };

  void Start() override;
  bool TakeNext() override;
  grpc::ByteBuffer Render() override;
  void Clear() override { newest_.reset(); }
  void EndShards() override;
  // It has no lease, and its program no name.
  void DescribeMore(v1::SessionInfo*) const override {}
  void Take(core::Event event);

  const grpc::ByteBuffer* const request_;  // valid during Start

  // Guarded by mu_; name_ and shard_ are constant once posted.
  core::LockName name_;
  int shard_ = -1;  // -1: not posted
  std::optional<Waiting> newest_;

  // Owned by the writing side.
  Waiting writing_now_;
};

}  // namespace distlock::rpc
