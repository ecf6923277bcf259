// SPDX-License-Identifier: Apache-2.0
// A relay's clients.
#include <grpcpp/generic/generic_stub.h>

#include <utility>

#include "bench/bidi_call.h"
#include "bench/direct_slot.h"
#include "bench/session.h"

namespace distlock::bench {
namespace {

// One stream with one command in flight: the later of the answer and the end of the write starts the next command.
class RelayCaller final : public BidiCall<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RelayCaller(Load& load, size_t i, const std::string& target, std::atomic<size_t>& busy)
      : load_(load),
        index_(i),
        busy_(busy),
        slot_("relay-" + std::to_string(i)),
        stub_(grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), OwnConnection())) {
    context().set_wait_for_ready(true);
    out_ = Bytes(slot_.next());
    sent_ = NowNanos();
    StartCall(stub_.PrepareCall(&context(), "/bench.Relay/Relay", SharedCallThread().queue()), out_);
    StartRead(&in_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      if (!closing_) load_.Fail("the relay's stream ended");
      return;
    }
    load_.Record(index_, sent_);
    grpc::Slice slice;
    if (!in_.TrySingleSlice(&slice).ok()) in_.DumpToSingleSlice(&slice);
    const std::string_view answer(reinterpret_cast<const char*>(slice.begin()), slice.size());
    if (!slot_.Take(answer)) load_.Fail("the relay answers " + std::string(answer));
    if (!slot_.holding()) load_.CountPair(index_);
    GoOn();
  }

  void OnWriteDone(bool ok) override {
    if (ok) GoOn();
  }

  void OnDone(const grpc::Status&) override { --busy_; }

  void GoOn() {
    if (++ended_ < 2) return;
    ended_ = 0;
    closing_ = !slot_.holding() && load_.stopping();
    if (closing_) context().TryCancel();
    StartRead(&in_);
    if (closing_) return AllowFinish();
    out_ = Bytes(slot_.next());
    sent_ = NowNanos();
    StartWrite(&out_);
  }

  // Used by the streams' thread only.
  Load& load_;
  const size_t index_;
  std::atomic<size_t>& busy_;
  PlainSlot slot_;
  grpc::GenericStub stub_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
  int ended_ = 0;  // of the write and the read
  bool closing_ = false;
  int64_t sent_ = 0;
};

class RelayLoad final : public Load {
 public:
  RelayLoad(std::string target, int redis_port, size_t clients)
      : Load(clients), target_(std::move(target)), redis_port_(redis_port), busy_(clients) {}

  void Start() override {
    LoadScripts(ConnectRedis(redis_port_).get());
    for (size_t i = 0; i < busy_.load(); ++i) {
      callers_.push_back(std::make_unique<RelayCaller>(*this, i, target_, busy_));
    }
  }

  void Stop() override { AwaitRest(busy_); }

 private:
  const std::string target_;
  const int redis_port_;
  std::atomic<size_t> busy_;  // streams that have not ended
  std::vector<std::unique_ptr<RelayCaller>> callers_;
};

}  // namespace

std::unique_ptr<Load> RelayClients(const std::string& target, int redis_port, size_t clients) {
  return std::make_unique<RelayLoad>(target, redis_port, clients);
}

}  // namespace distlock::bench
