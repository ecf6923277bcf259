// SPDX-License-Identifier: Apache-2.0
#include "grpc_stream.h"

#include <utility>

#include "distlock/wire/bearer.h"
#include "engine.h"

namespace distlock::internal {

GrpcStream::GrpcStream(std::shared_ptr<Engine> engine, int of_link, size_t to_broker, std::shared_ptr<CallThread> calls,
                       StubOf stub_of)
    : Stream(of_link, to_broker), engine_(std::move(engine)), calls_(std::move(calls)), stub_of_(std::move(stub_of)) {}

void GrpcStream::Start(const std::optional<std::string>& proof) {
  if (proof) context_.AddMetadata(wire::kAuthorization, *proof);
  context_.set_initial_metadata_corked(true);  // the headers leave together with the first message
  call_ = stub_of_(broker).PrepareAsyncSession(&context_, calls_->queue());
  call_->StartCall(nullptr);
  Write();
  Read();
}

void GrpcStream::Write() {
  calls_->Inline([this] { call_->Write(*message, writing_.For(this)); });
}

void GrpcStream::Read() { call_->Read(&response_.Renew(), reading_.For(this)); }

void GrpcStream::OnRead(bool ok) {
  if (!ok) return engine_->OnReadEnd(*this);
  engine_->OnResponse(*this, *response_);
  Read();
}

void GrpcStream::OnWritten(bool ok) { engine_->OnWritten(*this, ok); }

void GrpcStream::OnFinished(bool) { engine_->OnStreamEnd(*this, status_); }

}  // namespace distlock::internal
