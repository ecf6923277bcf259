// SPDX-License-Identifier: Apache-2.0
//
// WatchLock: one lock on one stream, shown at first and upon each change. What a slow reader has not taken yet gives way
// to the newest, so there is no more to keep than that.
//
// Thread: the reactions, and OnEvents and Send on who has the shard's turn; see StreamCall for the rest.
#pragma once

#include <optional>
#include <vector>

#include "rpc/stream/stream_call.h"

namespace distlock::rpc {

class WatchCall final : public StreamCall<WriteReactor> {
 public:
  WatchCall(Frontend& frontend, Call arrival) : StreamCall(frontend, std::move(arrival)) {}

  void OnEvents(int shard, std::vector<core::Notify> events) override;
  void Send() override { Pump(); }

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

  // Guarded by mu_; name_ and shard_ are constant once posted.
  core::LockName name_;
  int shard_ = -1;  // -1: not posted
  std::optional<Waiting> newest_;

  // Owned by the writing side.
  Waiting writing_now_;
};

}  // namespace distlock::rpc
