// SPDX-License-Identifier: Apache-2.0
#include "rpc/call/unary_call.h"

#include <iterator>

#include "contract/error_details.h"
#include "contract/to_proto.h"
#include "rpc/arrival.h"
#include "rpc/messages/status.h"

namespace distlock::rpc {

bool UnaryCall::Arrive() {
  inside_ = frontend_->inside.IsInside(context(), connection());
  auto arrived = rpc::Arrive(*frontend_, context(), connection());
  if (auto* subject = std::get_if<Subject>(&arrived)) subject_ = std::move(*subject);
  return !Denied(std::holds_alternative<Subject>(arrived) ? std::nullopt
                                                          : std::optional(std::get<v1::Refusal>(arrived)));
}

bool UnaryCall::Denied(const std::optional<v1::Refusal>& refusal, const core::LockName& about) {
  if (!refusal) return false;
  if (frontend_->observer != nullptr) frontend_->observer->OnRefusedHere(contract::ReasonOf(refusal->reason()));
  Refuse(*refusal, about);
  return true;
}

std::string UnaryCall::CallerText() { return subject_.caller == nullptr ? peer() : peer() + " " + subject_.identity(); }

core::SessionId UnaryCall::session() {
  if (session_ == 0) session_ = shards_->NewSessionId();
  return session_;
}

void UnaryCall::Ask(int shard, core::Input input) {
  shard_ = shard;
  if (shards_->TryPost(shard, std::move(input), session(), shared_from_this())) return;
  shard_.reset();
  Refuse(contract::OverloadRefusal());
}

void UnaryCall::AskSurely(int shard, core::Input input) {
  shard_ = shard;
  shards_->Post(shard, std::move(input), session(), shared_from_this());
}

bool UnaryCall::Read(const grpc::ByteBuffer& request, google::protobuf::MessageLite* message) {
  const auto problem = Parse(request, message);
  if (problem) Refuse(contract::MakeRefusal(core::RefusalReason::kInvalidArgument, *problem));
  return !problem;
}

bool UnaryCall::Answer(const google::protobuf::MessageLite& response) {
  if (!Claim()) return false;
  FinishWith(Serialize(response));
  return true;
}

bool UnaryCall::Refuse(const v1::Refusal& refusal, const core::LockName& about) {
  wire::RpcStatus error = contract::ErrorOf(refusal, about);
  // Nothing bounds the trailers inside the process.
  if (inside_) error.add_details()->PackFrom(refusal);
  const grpc::Status status = ToStatus(error);
  if (!Claim()) return false;
  FinishWithError(status);
  return true;
}

void UnaryCall::OnEvents(int, std::vector<core::Notify> events) {
  std::lock_guard lock(heard_mu_);
  heard_.insert(heard_.end(), std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
}

void UnaryCall::Send() {
  std::unique_lock lock(heard_mu_);
  while (!telling_ && !heard_.empty()) {
    telling_ = true;
    auto heard = std::exchange(heard_, {});
    lock.unlock();
    for (core::Notify& notify : heard) OnEvent(notify.event);
    lock.lock();
    telling_ = false;
  }
}

void UnaryCall::OnCancel() {
  // The StreamEnded that OnDone posts withdraws the request.
  if (!Claim()) return AnswerLost();
  FinishWithError(grpc::Status::CANCELLED);
}

void UnaryCall::OnDone() {
  const auto self = std::move(self_);
  OnEnd();
  if (shard_) shards_->Post(*shard_, core::StreamEnded{session_});
}

}  // namespace distlock::rpc
