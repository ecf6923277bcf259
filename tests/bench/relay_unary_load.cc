// SPDX-License-Identifier: Apache-2.0
// A relay's clients that make unary calls, as unary_load.cc does to the broker.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "bench/direct.h"
#include "bench/relay.h"
#include "bench/session.h"
#include "call_thread.h"

namespace distlock::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

class RelayUnaryLoad final : public Load {
 public:
  RelayUnaryLoad(const Lab& lab, const std::string& target, size_t clients) : Load(clients) {
    DirectSlot::LoadScripts(lab.Connect().get());
    for (size_t i = 0; i < clients; ++i) callers_.emplace_back(*this, target, i);
  }

  void Start() override {
    {
      std::lock_guard lock(mu_);
      busy_ = callers_.size();
    }
    for (Caller& caller : callers_) caller.Call();
  }

  void Stop() override {
    std::unique_lock lock(mu_);
    rested_.wait(lock, [this] { return busy_ == 0; });  // each call has a deadline
  }

 private:
  struct Caller final : internal::CallTag {
    Caller(RelayUnaryLoad& of, const std::string& target, size_t i)
        : load(of),
          index(i),
          slot(DirectKind::kSetNx, "relay-" + std::to_string(i)),
          acquire(Bytes(slot.acquire())),
          release(Bytes(slot.release())),
          stub(grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), OwnConnection())) {}

    void Call() {
      call.reset();  // its memory is the context's
      context.emplace();
      context->set_wait_for_ready(true);
      context->set_deadline(std::chrono::system_clock::now() + kPatience);
      response.Clear();
      sent = NowNanos();
      call = stub.PrepareUnaryCall(&*context, kRelayUnary, holding ? release : acquire, SharedCallThread().queue());
      call->StartCall();
      call->Finish(&response, &status, static_cast<internal::CallTag*>(this));
    }

    void Run(bool) override { load.OnDone(*this); }

    RelayUnaryLoad& load;
    const size_t index;
    const DirectSlot slot;
    const grpc::ByteBuffer acquire;
    const grpc::ByteBuffer release;
    grpc::GenericStub stub;
    grpc::ByteBuffer response;
    std::optional<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> call;
    grpc::Status status;
    bool holding = false;
    int64_t sent = 0;
  };

  void OnDone(Caller& caller) {
    if (recording()) tally(caller.index).op_latency.Record(NowNanos() - caller.sent);
    grpc::Slice slice;
    if (!caller.status.ok()) {
      Fail(caller.status.error_message());
      return Rest();
    }
    if (!caller.response.TrySingleSlice(&slice).ok()) caller.response.DumpToSingleSlice(&slice);
    const std::string_view answer(reinterpret_cast<const char*>(slice.begin()), slice.size());
    if (answer != (caller.holding ? "1" : "OK")) Fail("the relay answers " + std::string(answer));
    if (caller.holding) tally(caller.index).pairs.fetch_add(1, std::memory_order_relaxed);
    caller.holding = !caller.holding;
    if (!caller.holding && stopping()) return Rest();
    caller.Call();
  }

  void Rest() {
    std::lock_guard lock(mu_);
    if (--busy_ == 0) rested_.notify_all();
  }

  std::deque<Caller> callers_;  // each belongs to the one call that it has in flight
  std::mutex mu_;
  std::condition_variable rested_;
  size_t busy_ = 0;  // guarded by mu_
};

}  // namespace

std::unique_ptr<Load> RelayUnaryClients(const Lab& lab, const std::string& target, size_t clients) {
  return std::make_unique<RelayUnaryLoad>(lab, target, clients);
}

}  // namespace distlock::bench
