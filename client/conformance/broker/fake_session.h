// SPDX-License-Identifier: Apache-2.0
//
// One stream of a FakeBroker.
#pragma once

#include <time.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "fake_broker.h"

namespace distlock::testing {

// CLOCK_BOOTTIME in ns.
inline int64_t BootNow() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline void SetMillis(int64_t ms, google::protobuf::Duration* to) {
  to->set_seconds(ms / 1000);
  to->set_nanos(static_cast<int32_t>(ms % 1000 * 1'000'000));
}

// One stream. All but the callbacks of gRPC need the broker's mutex. Deletes itself when the call is over.
class FakeBroker::Peer final : public grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse> {
 public:
  Peer(FakeBroker& broker, grpc::CallbackServerContext* with, int64_t nth)
      : context(with), number(nth), broker_(broker) {}

  // Reads nothing, and ends at once unless the status is OK.
  void Begin(const grpc::Status& status) {
    if (!status.ok()) {
      finishing_ = true;
      return Finish(status);
    }
    StartRead(&request_);
  }

  void Send(v1::SessionResponse response) {
    outbox_.push_back(std::move(response));
    if (outbox_.size() == 1) StartWrite(&outbox_.front());
  }

  // After what was sent before. The first status counts.
  void End(const grpc::Status& status) {
    if (end_) return;
    end_ = status;
    FinishWhenSent();
  }

  void OnReadDone(bool ok) override {
    const int64_t at_ns = BootNow();
    absl::MutexLock lock(&broker_.mu_);
    half_closed_ = !ok && !end_;
    if (ok) broker_.OnMessage(*this, request_, at_ns);
    if (ok && !end_) return StartRead(&request_);
    broker_.Forget(*this);
    End(left ? grpc::Status::OK : grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"));
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&broker_.mu_);
    outbox_.pop_front();
    if (!ok) outbox_.clear();
    if (!outbox_.empty()) return StartWrite(&outbox_.front());
    FinishWhenSent();
  }

  void OnDone() override {
    const std::unique_ptr<Peer> self(this);
    absl::MutexLock lock(&broker_.mu_);
    broker_.OnOver(*this, half_closed_ && !context->IsCancelled());
  }

  grpc::CallbackServerContext* const context;
  const int64_t number;
  int64_t last_seq = 0;
  bool opened = false;
  bool left = false;
  std::string broken_rule;
  std::set<int64_t> ids{0};

 private:
  void FinishWhenSent() {
    if (!end_ || !outbox_.empty() || std::exchange(finishing_, true)) return;
    Finish(*end_);
  }

  FakeBroker& broker_;
  v1::SessionRequest request_;
  std::deque<v1::SessionResponse> outbox_;  // the front is being written
  std::optional<grpc::Status> end_;
  bool finishing_ = false;
  bool half_closed_ = false;  // or cancelled: OnDone knows which
};

}  // namespace distlock::testing
