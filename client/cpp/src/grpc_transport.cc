// SPDX-License-Identifier: Apache-2.0
#include "grpc_transport.h"

#include <grpcpp/channel.h>

#include <utility>

#include "call_thread.h"
#include "channel.h"
#include "grpc_stream.h"

namespace distlock::internal {
namespace {

class GrpcTransport final : public Transport {
 public:
  GrpcTransport(const ClientOptions& options, std::vector<std::string> addresses) : options_(options) {
    for (std::string& address : addresses) brokers_.push_back({std::move(address), nullptr, nullptr});
  }

  ~GrpcTransport() override { calls_->Leave(); }

  std::shared_ptr<Waiting> waiting() override { return calls_; }

  Stream* NewStream(std::shared_ptr<Core> core, int link) override {
    return new GrpcStream(std::move(core), link, *calls_);
  }

  void Start(Stream* stream, size_t broker, std::unique_ptr<Batch> first) override {
    GrpcStream& call = *static_cast<GrpcStream*>(stream);
    call.Authorize(brokers_[broker].address);
    call.Start(StubOf(broker), std::move(first));
  }

 private:
  struct Broker {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::LockService::Stub> stub;
  };

  v1::LockService::Stub& StubOf(size_t broker) {
    Broker& to = brokers_[broker];
    if (to.stub == nullptr) {
      to.channel = MakeChannel(options_, to.address);
      to.stub = v1::LockService::NewStub(to.channel);
    }
    grpc::experimental::ChannelResetConnectionBackoff(to.channel.get());
    return *to.stub;
  }

  const ClientOptions& options_;
  std::vector<Broker> brokers_;
  const std::shared_ptr<CallThread> calls_ = CallThread::OfProcess();  // ends before the channels
};

}  // namespace

std::unique_ptr<Transport> MakeGrpcTransport(const ClientOptions& options, std::vector<std::string> addresses) {
  return std::make_unique<GrpcTransport>(options, std::move(addresses));
}

}  // namespace distlock::internal
