// SPDX-License-Identifier: Apache-2.0
//
// Hold: one lock on one stream. To the core it is a session with a single acquire: the session's events become
// HoldResponses, its end becomes the status. While the client does not read, newer states replace older ones, so the
// queue of responses cannot grow.
//
// Thread: the reactions on the CallThreads, OnEvents and Send on the thread that has the shard's turn; see StreamCall.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "rpc/stream/stream_call.h"

namespace distlock::rpc {

class HoldCall final : public StreamCall<WriteReactor> {
 public:
  HoldCall(Frontend& frontend, Call arrival) : StreamCall(frontend, std::move(arrival)) {}

  void OnEvents(int shard, std::vector<core::Notify> events) override;
  void Send() override { Pump(); }

 private:
  void Start() override;
  bool TakeNext() override;
  grpc::ByteBuffer Render() override;
  void Clear() override { waiting_.clear(); }
  void EndShards() override;
  void DescribeMore(v1::SessionInfo* info) const override;
  bool GaveAllBack() const override { return has_nothing_; }
  void Take(core::Event event);
  // For the caller's quota, under mu_.
  void Count(int64_t leases, int64_t waiters);

  // Guarded by mu_; name_ and shard_ are constant once posted.
  core::LockName name_;
  std::string owner_;
  int shard_ = -1;  // -1: not posted
  bool granted_ = false;
  bool has_nothing_ = false;  // refused, or given back
  std::deque<core::Event> waiting_;

  // Owned by the writing side.
  core::Event writing_now_;
};

}  // namespace distlock::rpc
