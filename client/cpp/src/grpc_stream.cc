// SPDX-License-Identifier: Apache-2.0
#include "grpc_stream.h"

#include <utility>

#include "core.h"
#include "distlock/wire/bearer.h"

namespace distlock::internal {
namespace {

google::protobuf::ArenaOptions ArenaOptionsWith(char* block, size_t size) {
  google::protobuf::ArenaOptions options;
  options.initial_block = block;
  options.initial_block_size = size;
  return options;
}

}  // namespace

GrpcStream::GrpcStream(std::shared_ptr<Core> core, int link, CallThread& calls)
    : Stream(link),
      core_(std::move(core)),
      calls_(calls),
      block_(new char[kFirstBlock]),
      arena_(ArenaOptionsWith(block_.get(), kFirstBlock)) {}

void GrpcStream::Start(v1::LockService::Stub& stub, std::unique_ptr<Batch> first) {
  writing_ = std::move(first);
  StartCall(stub.PrepareAsyncSession(&context(), calls_.queue()), writing_->message());
  Read();
}

void GrpcStream::Authorize(const std::string& address) {
  if (const auto bearer = wire::BearerFor(address)) context().AddMetadata(wire::kAuthorization, *bearer);
}

void GrpcStream::Write(std::unique_ptr<Batch> batch) {
  writing_ = std::move(batch);
  calls_.Inline([this] { StartWrite(&writing_->message()); });
}

void GrpcStream::Read() {
  arena_.Reset();
  response_ = google::protobuf::Arena::CreateMessage<v1::SessionResponse>(&arena_);
  StartRead(response_);
}

void GrpcStream::OnReadDone(bool ok) {
  if (!ok) return core_->OnReadEnd(this);
  fx_.Clear();
  core_->OnResponse(this, *response_, fx_);
  Read();
}

void GrpcStream::OnWriteDone(bool ok) { core_->OnWritten(this, ok); }

void GrpcStream::OnDone(const grpc::Status& status) {
  // The call's context refers to the channel, so it must be gone before Close learns that the stream is done.
  const std::shared_ptr<Core> core = core_;
  const int of_link = link();
  const bool shares_thread = SharesThread();
  delete this;
  core->OnStreamDone(of_link, status, shares_thread);
}

}  // namespace distlock::internal
