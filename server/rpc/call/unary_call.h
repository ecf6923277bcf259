// SPDX-License-Identifier: Apache-2.0
//
// The base of the unary calls: one request, one answer. Made by Serve; lives until OnDone, and as long as a shard has
// it as a sink or holds its callback, which may be longer than the gRPC call. Once answered it does nothing.
//
// Thread: Start and the reactions run on the CallThreads, OnEvents and Send on the thread that has the shard's turn.
// The first answer finishes the call, with no mutex held.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/refusal.h"
#include "rpc/engine/reactor.h"
#include "rpc/engine/wire.h"
#include "rpc/frontend.h"
#include "shard/sink.h"

namespace distlock::rpc {

class UnaryCall : public UnaryReactor, public shard::Sink, public std::enable_shared_from_this<UnaryCall> {
 public:
  template <typename Derived, typename... Args>
  static void Serve(Frontend& frontend, Call arrival, Args&&... args) {
    auto call = std::make_shared<Derived>(std::forward<Args>(args)...);
    UnaryCall& base = *call;
    base.Bind(std::move(arrival));
    base.frontend_ = &frontend;
    base.shards_ = &frontend.shards;
    base.self_ = call;
    if (base.Arrive()) base.Start(base.request());
  }

  void OnEvents(int shard, std::vector<core::Notify> events) final;
  void Send() final;

 protected:
  // Reads the request, and answers or asks a shard. `request` is valid during Start only.
  virtual void Start(const grpc::ByteBuffer& request) = 0;
  // An event of the shard that was asked; one at a time.
  virtual void OnEvent(core::Event&) {}
  // gRPC is done with the call. The last use of the frontend.
  virtual void OnEnd() {}
  // The call was answered, but the caller cancelled it and will not see the answer.
  virtual void AnswerLost() {}

  // Answers the call. False: it was answered before, and nothing happens.
  bool Answer(const google::protobuf::MessageLite& response);
  bool Refuse(const v1::Refusal& refusal, const core::LockName& about = {});

  // False: nullopt, and nothing happens. True: the call is refused.
  bool Denied(const std::optional<v1::Refusal>& refusal, const core::LockName& about = {});

  // Parses the request. False: it was malformed, and the call is refused.
  bool Read(const grpc::ByteBuffer& request, google::protobuf::MessageLite* message);

  // True when the call is answered or the caller has left: more work would be useless.
  bool answered() const { return answered_.load(std::memory_order_acquire); }

  // Posts the call's input to a core, once. `input` must have session and request set.
  void Ask(int shard, core::Input input);        // by the bounded lane; refuses the call when the shard is overloaded
  void AskSurely(int shard, core::Input input);  // by the lane that always delivers

  // During Start and OnEnd only; later the frontend may be gone. shards() may be used at any time.
  Frontend& frontend() { return *frontend_; }
  shard::ShardSet& shards() { return *shards_; }
  core::SessionId session();
  // For whom the call is, for people. During Start only.
  std::string peer() { return frontend_->inside.PeerOf(context(), connection()); }
  // The same, with what the caller has proven to be. During Start only.
  std::string CallerText();
  // The peer counted for the caller. During Start only.
  std::string counted_peer() { return frontend_->inside.CountedPeerOf(context(), connection()); }
  // The caller. During Start only.
  Subject& subject() { return subject_; }

 private:
  // Reads who calls. False: a proof of identity is wrong, and the call is refused.
  bool Arrive();
  void OnCancel() final;
  void OnDone() final;
  bool Claim() { return !answered_.exchange(true, std::memory_order_acq_rel); }

  // Constant from Start on.
  Frontend* frontend_ = nullptr;
  shard::ShardSet* shards_ = nullptr;
  core::SessionId session_ = 0;
  Subject subject_;
  bool inside_ = false;       // the caller is in this process
  std::optional<int> shard_;  // the shard that was asked

  // Guarded by heard_mu_.
  std::mutex heard_mu_;
  std::vector<core::Notify> heard_;
  bool telling_ = false;  // a thread is in OnEvent

  std::atomic<bool> answered_ = false;
  std::shared_ptr<UnaryCall> self_;
};

}  // namespace distlock::rpc
