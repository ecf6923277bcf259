// SPDX-License-Identifier: Apache-2.0
#include "rpc/health.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/engine/wire.h"

namespace distlock::rpc {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

grpc::ByteBuffer Render(HealthCheckResponse::ServingStatus status) {
  HealthCheckResponse response;
  response.set_status(status);
  return Serialize(response);
}

grpc::Status Stopping() { return {grpc::StatusCode::UNAVAILABLE, "the broker is stopping"}; }

// A Check. It is answered as soon as it is bound.
class HealthCheck final : public UnaryReactor {
 public:
  static void Answer(Call call, const HealthCheckResponse::ServingStatus status) {
    Bound(std::move(call))->FinishWith(Render(status));
  }
  static void Refuse(Call call, const grpc::Status& status) { Bound(std::move(call))->FinishWithError(status); }

 private:
  static HealthCheck* Bound(Call call) {
    auto* const check = new HealthCheck;
    check->Bind(std::move(call));
    return check;
  }
  void OnCancel() override {}
  void OnDone() override { delete this; }
};

}  // namespace

// One caller of Watch. A state that has not been written yet is replaced by a newer one.
class HealthWatch final : public WriteReactor, public std::enable_shared_from_this<HealthWatch> {
 public:
  HealthWatch(HealthService& service, std::string name, Call call) : service_(service), name_(std::move(name)) {
    Bind(std::move(call));
  }

  // Writes the present state, unless the client has it already. Must be called after each change.
  void Refresh() {
    {
      std::lock_guard lock(mu_);
      const auto status = service_.StatusOf(name_);
      if (told_ == status || end_) return;
      told_ = next_ = status;
    }
    Pump();
  }

  // The state that waits is still written.
  void End(grpc::Status status) {
    {
      std::lock_guard lock(mu_);
      if (end_) return;
      end_ = std::move(status);
    }
    Pump();
  }

 private:
  // Writes the state that waits, or finishes. Without mu_.
  void Pump() {
    std::optional<HealthCheckResponse::ServingStatus> next;
    {
      std::lock_guard lock(mu_);
      if (writing_ || finished_) return;
      next = std::exchange(next_, std::nullopt);
      if (!next && !end_) return;
      (next ? writing_ : finished_) = true;
    }
    if (!next) return Finish(*end_);
    out_ = Render(*next);
    StartWrite(&out_);
  }

  void OnWriteDone(bool ok) override {
    {
      std::lock_guard lock(mu_);
      writing_ = false;
    }
    if (!ok) End(grpc::Status::CANCELLED);
    Pump();
  }
  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override { service_.Forget(shared_from_this()); }

  HealthService& service_;
  const std::string name_;
  grpc::ByteBuffer out_;  // owned by the thread that set writing_

  std::mutex mu_;  // locked before the service's mu_
  bool writing_ = false;
  bool finished_ = false;
  std::optional<HealthCheckResponse::ServingStatus> told_;
  std::optional<HealthCheckResponse::ServingStatus> next_;
  std::optional<grpc::Status> end_;  // set once, never changed
};

HealthService::HealthService(std::vector<std::string> services) : services_(std::move(services)) {}

void HealthService::Open(CallThreads& threads) {
  threads.OpenUnary(*this, &HealthService::RequestCheck, [this](auto call) { Check(std::move(call)); });
  threads.OpenStream(*this, &HealthService::RequestWatch, [this](auto call) { Watch(std::move(call)); });
}

HealthService::Status HealthService::StatusOf(const std::string& service) const {
  const bool known = service.empty() || std::find(services_.begin(), services_.end(), service) != services_.end();
  if (!known) return HealthCheckResponse::SERVICE_UNKNOWN;
  std::lock_guard lock(mu_);
  return serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthService::Check(UnaryReactor::Call call) {
  HealthCheckRequest request;
  if (const auto problem = Parse(call->request, &request)) {
    return HealthCheck::Refuse(std::move(call), {grpc::StatusCode::INVALID_ARGUMENT, *problem});
  }
  const Status status = StatusOf(request.service());
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    const std::string problem = absl::StrCat("there is no service '", request.service(), "' here");
    return HealthCheck::Refuse(std::move(call), {grpc::StatusCode::NOT_FOUND, problem});
  }
  HealthCheck::Answer(std::move(call), status);
}

void HealthService::Watch(WriteReactor::Call call) {
  HealthCheckRequest request;
  const auto problem = Parse(call->request, &request);
  const auto watch = std::make_shared<HealthWatch>(*this, request.service(), std::move(call));
  bool stopped = false;
  {
    std::lock_guard lock(mu_);
    watches_.insert(watch);
    stopped = stopped_;
  }
  if (problem) return watch->End({grpc::StatusCode::INVALID_ARGUMENT, *problem});
  if (stopped) return watch->End(Stopping());
  watch->Refresh();
}

void HealthService::Forget(const std::shared_ptr<HealthWatch>& watch) {
  std::lock_guard lock(mu_);
  watches_.erase(watch);
}

void HealthService::Set(bool serving) {
  for (const auto& watch : Change([&] { serving_ = serving; })) watch->Refresh();
}

void HealthService::Stop() {
  for (const auto& watch : Change([&] { stopped_ = true; })) watch->End(Stopping());
}

template <typename What>
HealthService::Watches HealthService::Change(What what) {
  std::lock_guard lock(mu_);
  what();
  return watches_;
}

}  // namespace distlock::rpc
