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
  GrpcTransport(const ClientOptions& options, const std::vector<std::string>& addresses) : options_(options) {
    for (const std::string& address : addresses) brokers_.push_back({.address = address});
  }

  ~GrpcTransport() override { calls_->Leave(); }

  std::shared_ptr<Waiting> waiting() override { return calls_; }

  std::shared_ptr<Stream> NewStream(std::shared_ptr<Engine> engine, int link, size_t broker) override {
    return std::make_shared<GrpcStream>(std::move(engine), link, broker, calls_,
                                        [this](size_t of) -> v1::LockService::Stub& { return StubOf(of); });
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
  const std::shared_ptr<CallThread> calls_ = CallThread::OfProcess();
};

}  // namespace

std::unique_ptr<Transport> MakeGrpcTransport(const ClientOptions& options, const std::vector<std::string>& addresses) {
  return std::make_unique<GrpcTransport>(options, addresses);
}

}  // namespace distlock::internal
