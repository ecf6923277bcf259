// SPDX-License-Identifier: Apache-2.0
#include "rpc/call.h"

namespace distlock::rpc {

core::SessionId UnaryCall::session() {
  if (session_ == 0) session_ = shards_->NewSessionId();
  return session_;
}

void UnaryCall::Ask(int shard, core::Input input) {
  shard_ = shard;
  if (shards_->TryPost(shard, std::move(input), session(), shared_from_this())) return;
  shard_.reset();
  Refuse(OverloadRefusal());
}

void UnaryCall::AskSurely(int shard, core::Input input) {
  shard_ = shard;
  shards_->Post(shard, std::move(input), session(), shared_from_this());
}

bool UnaryCall::Read(const grpc::ByteBuffer& request, google::protobuf::MessageLite* message) {
  const auto problem = Parse(request, message);
  if (problem) Refuse(MakeRefusal(core::RefusalReason::kInvalidArgument, *problem));
  return !problem;
}

bool UnaryCall::Answer(const google::protobuf::MessageLite& response) {
  if (!Claim()) return false;
  *response_ = Serialize(response);
  Finish(grpc::Status::OK);
  return true;
}

bool UnaryCall::Refuse(const v1::Refusal& refusal, const core::LockName& about) {
  grpc::Status status = StatusOf(refusal, about);
  if (!Claim()) return false;
  Finish(std::move(status));
  return true;
}

void UnaryCall::OnEvents(int, std::vector<core::Notify> events) {
  for (core::Notify& notify : events) OnEvent(notify.event);
}

void UnaryCall::OnCancel() {
  // What was asked for is withdrawn by the StreamEnded that OnDone posts.
  if (!Claim()) return AnswerLost();
  Finish(grpc::Status::CANCELLED);
}

void UnaryCall::OnDone() {
  const auto self = std::move(self_);
  if (shard_) shards_->Post(*shard_, core::StreamEnded{session_});
  frontend_->admission.CallEnds();
}

}  // namespace distlock::rpc
