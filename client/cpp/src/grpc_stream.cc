// SPDX-License-Identifier: Apache-2.0
#include "grpc_stream.h"

#include <utility>

#include "core.h"
#include "distlock/wire/bearer.h"

namespace distlock::internal {
namespace {

google::protobuf::ArenaOptions OptionsWith(char* block, size_t size) {
  google::protobuf::ArenaOptions options;
  options.initial_block = block;
  options.initial_block_size = size;
  return options;
}

}  // namespace

GrpcStream::GrpcStream(std::shared_ptr<Core> core, int of_link, size_t to_broker, std::shared_ptr<CallThread> calls,
                       StubOf stub_of)
    : Stream(of_link, to_broker),
      core_(std::move(core)),
      calls_(std::move(calls)),
      stub_of_(std::move(stub_of)),
      arena_(OptionsWith(block_.get(), kFirstBlock)) {}

void GrpcStream::Start(const std::optional<std::string>& proof, std::unique_ptr<v1::SessionRequest> first) {
  if (proof) context_.AddMetadata(wire::kAuthorization, *proof);
  context_.set_initial_metadata_corked(true);  // the headers leave together with the first message
  call_ = stub_of_(broker).PrepareAsyncSession(&context_, calls_->queue());
  call_->StartCall(nullptr);
  written_ = std::move(first);
  call_->Write(*written_, writing_.For(this));
  Read();
}

void GrpcStream::Write(std::unique_ptr<v1::SessionRequest> message) {
  written_ = std::move(message);
  calls_->Inline([this] { call_->Write(*written_, writing_.For(this)); });
}

void GrpcStream::Read() {
  arena_.Reset();
  response_ = google::protobuf::Arena::CreateMessage<v1::SessionResponse>(&arena_);
  call_->Read(response_, reading_.For(this));
}

void GrpcStream::OnRead(bool ok) {
  if (!ok) return core_->engine().OnReadEnd(*this);
  core_->engine().OnResponse(*this, *response_);
  Read();
}

void GrpcStream::OnWritten(bool ok) { core_->engine().OnWritten(*this, ok); }

void GrpcStream::OnFinished(bool) { core_->engine().OnStreamEnd(*this, status_); }

}  // namespace distlock::internal
