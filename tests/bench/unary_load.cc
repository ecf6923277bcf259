// SPDX-License-Identifier: Apache-2.0
// Detached leases by unary calls: bytes in, bytes out, on the one thread that all callers share, as sessions do.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bench/broker_load.h"
#include "bench/session.h"
#include "bench/wire_scan.h"
#include "call_thread.h"
#include "distlock/v1/lock_service.pb.h"

namespace distlock::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr const char* kAcquire = "/distlock.v1.LockService/Acquire";
constexpr const char* kRelease = "/distlock.v1.LockService/Release";

class UnaryLoad final : public Load {
 public:
  UnaryLoad(Target target, size_t clients) : Load(clients), target_(std::move(target)) {
    for (size_t i = 0; i < clients; ++i) slots_.emplace_back(this, i);
  }

  void Start() override {
    for (Slot& slot : slots_) {
      slot.channel = grpc::CreateCustomChannel(target_.name, target_.credentials, OwnConnection());
      slot.stub.emplace(slot.channel);
    }
    {
      std::lock_guard lock(mu_);
      busy_ = slots_.size();
    }
    for (Slot& slot : slots_) Acquire(slot);
  }

  void Stop() override {
    std::unique_lock lock(mu_);
    rested_.wait(lock, [this] { return busy_ == 0; });  // each call has a deadline
  }

 private:
  struct Slot final : internal::CallTag {
    Slot(UnaryLoad* of, size_t i) : owner(of), index(i) {
      v1::AcquireRequest request;
      *request.add_locks() = Spec("unary-" + std::to_string(i));
      acquire = Bytes(request.SerializeAsString());
    }

    void Run(bool) override { owner->OnDone(*this); }

    UnaryLoad* const owner;
    const size_t index;
    grpc::ByteBuffer acquire;
    grpc::ByteBuffer release;  // of the lease held now
    grpc::ByteBuffer response;
    std::shared_ptr<grpc::Channel> channel;
    std::optional<grpc::GenericStub> stub;
    std::optional<grpc::ClientContext> context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> call;
    grpc::Status status;
    bool (UnaryLoad::*then)(Slot&, std::string_view) = nullptr;
    int64_t last_token = 0;
    int64_t sent = 0;
  };

  void Acquire(Slot& slot) { Call(slot, kAcquire, slot.acquire, &UnaryLoad::OnAcquired); }

  void Call(Slot& slot, const char* method, const grpc::ByteBuffer& request,
            bool (UnaryLoad::*then)(Slot&, std::string_view)) {
    slot.then = then;
    slot.call.reset();  // its memory is the context's
    slot.context.emplace();
    slot.context->set_wait_for_ready(true);
    slot.context->set_deadline(std::chrono::system_clock::now() + kPatience);
    slot.response.Clear();
    slot.sent = NowNanos();
    slot.call = slot.stub->PrepareUnaryCall(&*slot.context, method, request, SharedCallThread().queue());
    slot.call->StartCall();
    slot.call->Finish(&slot.response, &slot.status, static_cast<internal::CallTag*>(&slot));
  }

  void OnDone(Slot& slot) {
    if (recording()) tally(slot.index).op_latency.Record(NowNanos() - slot.sent);
    grpc::Slice slice;
    if (!slot.status.ok()) {
      Fail(slot.status.error_message());
    } else if (!slot.response.TrySingleSlice(&slice).ok() && !slot.response.DumpToSingleSlice(&slice).ok()) {
      Fail("an unreadable answer");
    } else if ((this->*slot.then)(slot, {reinterpret_cast<const char*>(slice.begin()), slice.size()})) {
      return;
    }
    std::lock_guard lock(mu_);
    if (--busy_ == 0) rested_.notify_all();
  }

  // These say whether the slot goes on.
  bool OnAcquired(Slot& slot, std::string_view answer) {
    int64_t token = 0;
    std::string_view lease_id;
    for (WireCursor response(answer); response.Next();) {
      if (response.field() != v1::AcquireResponse::kGrantsFieldNumber) continue;
      for (WireCursor grant(response.bytes()); grant.Next();) {
        if (grant.field() == v1::Grant::kFencingTokenFieldNumber) token = grant.varint();
        if (grant.field() == v1::Grant::kLeaseIdFieldNumber) lease_id = grant.bytes();
      }
    }
    if (lease_id.empty() || token <= slot.last_token) {
      Fail(lease_id.empty() ? "Acquire gave no lease" : "Acquire: the fencing token did not grow");
      return false;
    }
    slot.last_token = token;
    v1::ReleaseRequest request;
    request.set_lease_id(std::string(lease_id));
    slot.release = Bytes(request.SerializeAsString());
    Call(slot, kRelease, slot.release, &UnaryLoad::OnReleased);
    return true;
  }

  bool OnReleased(Slot& slot, std::string_view answer) {
    int64_t outcome = 0;
    for (WireCursor response(answer); response.Next();) {
      if (response.field() == v1::ReleaseResponse::kOutcomeFieldNumber) outcome = response.varint();
    }
    if (outcome != v1::RELEASE_OUTCOME_RELEASED) {
      Fail("Release: outcome " + std::to_string(outcome));
      return false;
    }
    tally(slot.index).pairs.fetch_add(1, std::memory_order_relaxed);
    if (stopping()) return false;
    Acquire(slot);
    return true;
  }

  const Target target_;
  std::deque<Slot> slots_;  // each belongs to the one call that it has in flight
  std::mutex mu_;
  std::condition_variable rested_;
  size_t busy_ = 0;  // guarded by mu_: slots not at rest
};

}  // namespace

std::unique_ptr<Load> UnaryClients(Target target, size_t clients) {
  return std::make_unique<UnaryLoad>(std::move(target), clients);
}

}  // namespace distlock::bench
