// SPDX-License-Identifier: Apache-2.0
//
// WatchLock: sends the state of one lock at first and after each change. While the client does not read, only the
// newest state is kept.
//
// Thread: the reactions on the CallThreads, OnEvents and Send on the thread that has the shard's turn; see StreamCall.
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

  bool OnlyWatches() const override { return true; }
  void Start() override;
  bool TakeNext() override;
  grpc::ByteBuffer Render() override;
  void Clear() override { newest_.reset(); }
  void EndShards() override;
  std::optional<v1::Refusal> Unwelcome(Subject& subject) override;
  // A watch has no leases, and its request does not name the client.
  void DescribeMore(v1::SessionInfo* info) const override { info->set_kind(v1::STREAM_KIND_WATCH); }
  void Take(core::Event event);

  // Guarded by mu_; name_ and shard_ are constant once posted.
  core::LockName name_;
  int shard_ = -1;  // -1: not posted
  std::optional<Waiting> newest_;

  // Owned by the writing side.
  Waiting writing_now_;
};

}  // namespace distlock::rpc
