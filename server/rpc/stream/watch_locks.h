// SPDX-License-Identifier: Apache-2.0
//
// WatchLocks: all locks under a prefix. It lists the store in rounds and watches each lock that it finds, as WatchLock
// does; WatchedLocks knows which. A watch in the core belongs to a session of its own, which only this stream knows.
//
// Thread: the reactions on the CallThreads; OnEvents, Send and OnPage on threads that have a shard's turn; OnPause on a
// thread of gRPC's. See StreamCall.
#pragma once

#include <grpcpp/alarm.h>

#include <deque>
#include <string>
#include <vector>

#include "contract/validate.h"
#include "distlock/v1/lock_service.pb.h"
#include "rpc/stream/stream_call.h"
#include "rpc/stream/watched_locks.h"

namespace distlock::rpc {

class WatchLocksCall final : public StreamCall<WriteReactor> {
 public:
  WatchLocksCall(Frontend& frontend, Call arrival)
      : StreamCall(frontend, std::move(arrival)), watched_(frontend.limits.max_watched_locks) {}

  void OnEvents(int shard, std::vector<core::Notify> events) override;
  void Send() override { Pump(); }

 private:
  bool OnlyWatches() const override { return true; }
  void Start() override;
  bool TakeNext() override;
  grpc::ByteBuffer Render() override;
  void Clear() override { cleared_ = true; }
  void EndShards() override;
  std::optional<v1::Refusal> Unwelcome(Subject& subject) override;
  void DescribeMore(v1::SessionInfo* info) const override { info->set_kind(v1::STREAM_KIND_WATCH); }

  void OnPage(absl::StatusOr<store::LockPage> page);
  void OnPause();
  // Under mu_.
  void BeginRound();
  void AskForPage();
  void EndRound(bool complete);
  void Found(const store::LockPage& page);
  void StopWatching();
  void Take(core::Notify notify);
  void Fail(const v1::Refusal& refusal, StreamClose why);

  // Constant once Start has posted.
  contract::LockSearch search_;

  // Guarded by mu_.
  WatchedLocks watched_;
  std::optional<v1::WatchLocksRequest> asked_;  // once it was found valid
  bool admitted_ = false;                       // counts as a prefix watch
  std::string page_token_;
  core::Instant round_began_{};
  bool all_posted_ = true;  // every lock that this round found is watched
  grpc::Alarm pause_;
  bool cleared_ = false;  // nothing more is written

  // Owned by the writing side.
  std::deque<WatchedLocks::Change> writing_;
  bool writing_listed_ = false;
};

}  // namespace distlock::rpc
