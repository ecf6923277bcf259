// SPDX-License-Identifier: Apache-2.0
// Starting a relay, and its clients.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <stdexcept>
#include <utility>

#include "bench/bidi_call.h"
#include "bench/direct.h"
#include "bench/relay.h"
#include "bench/session.h"

namespace distlock::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
using Done = std::function<void()>;

// One stream with one command in flight: the later of the answer and the end of the write starts the next command.
class RelayCaller final : public BidiCall<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RelayCaller(Load& load, Tally& tally, const char* method, const std::string& target, size_t i, Done done)
      : load_(load),
        tally_(tally),
        is_echo_(method == kRelayEcho),
        slot_(DirectKind::kSetNx, "relay-" + std::to_string(i)),
        acquire_(Bytes(slot_.acquire())),
        release_(Bytes(slot_.release())),
        stub_(grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), OwnConnection())),
        done_(std::move(done)) {
    context().set_wait_for_ready(true);
    sent_ = NowNanos();
    StartCall(stub_.PrepareCall(&context(), method, SharedCallThread().queue()), acquire_);
    StartRead(&in_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (load_.recording()) tally_.op_latency.Record(NowNanos() - sent_);
    grpc::Slice slice;
    if (!in_.TrySingleSlice(&slice).ok()) in_.DumpToSingleSlice(&slice);
    const std::string_view answer(reinterpret_cast<const char*>(slice.begin()), slice.size());
    if (answer != Expected()) load_.Fail("the relay answers " + std::string(answer));
    if (holding_) tally_.pairs.fetch_add(1, std::memory_order_relaxed);
    holding_ = !holding_;
    GoOn();
  }

  std::string_view Expected() const {
    if (is_echo_) return holding_ ? slot_.release() : slot_.acquire();
    return holding_ ? "1" : "OK";
  }

  void OnWriteDone(bool ok) override {
    if (ok) GoOn();
  }

  void OnDone(const grpc::Status&) override { done_(); }

  void GoOn() {
    if (++ended_ < 2) return;
    ended_ = 0;
    const bool rests = !holding_ && load_.stopping();
    if (rests) context().TryCancel();
    StartRead(&in_);
    if (rests) return AllowFinish();
    sent_ = NowNanos();
    StartWrite(holding_ ? &release_ : &acquire_);
  }

  Load& load_;
  Tally& tally_;
  const bool is_echo_;
  const DirectSlot slot_;
  const grpc::ByteBuffer acquire_;
  const grpc::ByteBuffer release_;
  grpc::GenericStub stub_;
  grpc::ByteBuffer in_;
  const Done done_;
  // Used by the calls' thread only.
  bool holding_ = false;
  int ended_ = 0;  // of the write and the read
  int64_t sent_ = 0;
};

class RelayLoad final : public Load {
 public:
  RelayLoad(const Lab& lab, const char* method, std::string target, size_t clients)
      : Load(clients), method_(method), target_(std::move(target)), clients_(clients) {
    DirectSlot::LoadScripts(lab.Connect().get());
  }

  void Start() override {
    std::lock_guard lock(mu_);
    for (size_t i = 0; i < clients_; ++i) {
      callers_.push_back(std::make_unique<RelayCaller>(*this, tally(i), method_, target_, i, [this] {
        std::lock_guard here(mu_);
        ++done_;
        all_done_.notify_all();
      }));
    }
  }

  void Stop() override {
    std::unique_lock lock(mu_);
    const bool ended = all_done_.wait_for(lock, kPatience, [this] { return done_ == clients_; });
    if (!ended) throw std::runtime_error("the relay's streams did not end");
    callers_.clear();
  }

 private:
  const char* const method_;
  const std::string target_;
  const size_t clients_;
  std::mutex mu_;
  std::condition_variable all_done_;
  size_t done_ = 0;  // guarded by mu_
  std::vector<std::unique_ptr<RelayCaller>> callers_;
};

}  // namespace

Relay::Relay(const Lab& lab, Transport over) {
  const bool tcp = lab.OnTcp(over);
  target_ = tcp ? "127.0.0.1:" + std::to_string(FreePort()) : "unix://" + lab.folder() + "/relay.sock";
  child_ = std::make_unique<Child>(
      std::vector<std::string>{"/proc/self/exe", "--relay", target_, "--relay-redis", lab.unix_path()},
      lab.folder() + "/relay.log");
  grpc::ChannelArguments arguments = OwnConnection();
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
  const auto channel = grpc::CreateCustomChannel(target_, grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + kPatience)) {
    throw std::runtime_error("the relay does not serve; its last words:\n" + child_->LogTail());
  }
}

std::unique_ptr<Load> RelayClients(const Lab& lab, std::string target, size_t clients) {
  return std::make_unique<RelayLoad>(lab, kRelayStream, std::move(target), clients);
}

std::unique_ptr<Load> EchoClients(const Lab& lab, std::string target, size_t clients) {
  return std::make_unique<RelayLoad>(lab, kRelayEcho, std::move(target), clients);
}

}  // namespace distlock::bench
