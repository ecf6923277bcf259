// SPDX-License-Identifier: Apache-2.0
//
// Hold: one lock on one stream. A core session with a single acquire; its events become HoldResponses, its end the
// status. What a slow reader has not taken yet is conflated to the newest state, so the outbox cannot grow.
//
// Thread: gRPC's reactions, and OnEvents on the shard's thread; see StreamCall for the rest.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "rpc/stream_call.h"

namespace distlock::rpc {

class HoldCall final : public StreamCall<grpc::ServerWriteReactor<grpc::ByteBuffer>> {
 public:
  HoldCall(Frontend& frontend, grpc::CallbackServerContext* context, const grpc::ByteBuffer* request)
      : StreamCall(frontend, context), request_(request) {}

  void OnEvents(int shard, std::vector<core::Notify> events) override;

 private:
  struct Waiting {
    core::Event event;
    core::Instant since;
  };

  void Start() override;
  bool TakeNext() override;
  grpc::ByteBuffer Render() override;
  void Clear() override { waiting_.clear(); }
  void EndShards() override;
  void DescribeMore(v1::SessionInfo* info) const override;
  void Take(core::Event event);

  const grpc::ByteBuffer* const request_;  // valid during Start

  // Guarded by mu_; name_, ttl_ and shard_ are constant once posted.
  core::LockName name_;
  core::Duration ttl_{};
  std::string owner_;
  int shard_ = -1;  // -1: not posted
  bool granted_ = false;
  std::deque<Waiting> waiting_;

  // Owned by the writing side.
  Waiting writing_now_;
};

}  // namespace distlock::rpc
