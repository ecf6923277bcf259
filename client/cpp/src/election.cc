// SPDX-License-Identifier: Apache-2.0
#include "distlock/election.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "core.h"
#include "distlock/client.h"

namespace distlock {
namespace {

using internal::Core;

// Of a look, beyond which the broker counts as unreachable.
constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kBetweenLooks = std::chrono::seconds(1);
constexpr auto kBetweenAttempts = std::chrono::milliseconds(200);

LockOptions WithValue(LockOptions options, std::string value) {
  options.metadata[kElectionValue] = std::move(value);
  return options;
}

std::optional<Leader> LeaderOf(const v1::Lock& lock) {
  for (const v1::Holder& wire : lock.holders()) {
    if (wire.blocked()) continue;  // nobody leads: a lock_delay is running
    const Holder holder = internal::ToHolder(wire);
    const auto value = holder.metadata.find(kElectionValue);
    return Leader{.value = value == holder.metadata.end() ? "" : value->second,
                  .owner = holder.owner,
                  .holder_id = holder.holder_id,
                  .token = holder.fencing_token,
                  .since = holder.since};
  }
  return std::nullopt;
}

void Pause(std::chrono::milliseconds length, const std::stop_token& stop) {
  std::mutex mu;
  std::condition_variable_any never;
  std::unique_lock lock(mu);
  never.wait_for(lock, stop, length, [] { return false; });
}

}  // namespace

// How others are seen to lead: calls beside the stream, which carries the client's own locks only.
class Election::Eyes {
 public:
  Eyes(std::shared_ptr<Core> core, std::string name_space, std::string key) : core_(std::move(core)) {
    request_.set_namespace_(std::move(name_space));
    request_.set_key(std::move(key));
  }

  grpc::Status Look(v1::Lock* lock, const std::stop_token& stop) {
    grpc::ClientContext call;
    const std::stop_callback on_stop(stop, [&] { call.TryCancel(); });
    call.set_deadline(std::chrono::system_clock::now() + kPatience);
    call.set_wait_for_ready(true);
    v1::GetLockRequest request;
    request.set_namespace_(request_.namespace_());
    request.set_key(request_.key());
    v1::GetLockResponse response;
    const grpc::Status status = Stub()->GetLock(&call, request, &response);
    lock->Swap(response.mutable_lock());
    return status;
  }

  grpc::Status Watch(const std::function<void(const v1::Lock&)>& tell, const std::stop_token& stop) {
    grpc::ClientContext call;
    const std::stop_callback on_stop(stop, [&] { call.TryCancel(); });
    const auto stream = Stub()->WatchLock(&call, request_);
    v1::WatchLockResponse response;
    while (stream->Read(&response)) tell(response.lock());
    return stream->Finish();
  }

 private:
  v1::LockService::Stub* Stub() {
    std::call_once(connected_, [this] { stub_ = v1::LockService::NewStub(core_->NewChannel()); });
    return stub_.get();
  }

  const std::shared_ptr<Core> core_;
  v1::WatchLockRequest request_;  // constant after construction
  std::once_flag connected_;
  std::unique_ptr<v1::LockService::Stub> stub_;
};

Election::Election(Client& client, std::string name, std::string value, LockOptions options)
    : lock_(client.core_, internal::MakeSpec(name, WithValue(options, std::move(value)))),
      eyes_(std::make_shared<Eyes>(client.core_, std::move(options.lock_namespace), std::move(name))) {}

Result<Leadership> Election::Campaign(std::stop_token cancel) { return Elected(lock_.Acquire(cancel)); }
Result<Leadership> Election::TryCampaign() { return Elected(lock_.TryAcquire()); }
Result<Leadership> Election::CampaignFor(Duration max_wait, std::stop_token cancel) {
  return Elected(lock_.TryAcquireFor(max_wait, cancel));
}

PendingLock Election::CampaignAsync(CampaignCallback callback) {
  return lock_.AcquireAsync(
      [callback = std::move(callback)](Result<Guard> answer) { callback(Elected(std::move(answer))); });
}

Result<Leadership> Election::Elected(Result<Guard> answer) {
  if (!answer.ok()) return answer.refusal();
  return Leadership(std::move(answer).value());
}

Result<std::optional<Leader>> Election::Look() {
  if (Core::OnLibraryThread()) {
    return Refusal{.reason = RefusalReason::kWouldDeadlock, .message = "called from a callback; look from a thread"};
  }
  v1::Lock lock;
  const grpc::Status status = eyes_->Look(&lock, {});
  if (!status.ok()) return internal::ToRefusal(status);
  return LeaderOf(lock);
}

Refusal Election::Observe(const std::function<void(const std::optional<Leader>&)>& on_change, std::stop_token stop) {
  if (Core::OnLibraryThread()) {
    return {.reason = RefusalReason::kWouldDeadlock, .message = "called from a callback; observe from a thread"};
  }
  bool told_any = false;
  std::optional<Leader> told;
  const auto tell = [&](const v1::Lock& lock) {
    const std::optional<Leader> leader = LeaderOf(lock);
    if ((told_any && told == leader) || stop.stop_requested()) return;
    told_any = true;
    told = leader;
    on_change(leader);
  };
  bool can_watch = true;
  while (!stop.stop_requested()) {
    v1::Lock lock;
    const grpc::Status status = can_watch ? eyes_->Watch(tell, stop) : eyes_->Look(&lock, stop);
    if (!can_watch && status.ok()) tell(lock);
    const Refusal why = status.ok() ? Refusal{} : internal::ToRefusal(status);
    if (can_watch && why.reason == RefusalReason::kNotSupported) {
      can_watch = false;
      continue;
    }
    if (!stop.stop_requested() && internal::IsPermanent(why.reason)) return why;
    Pause(can_watch ? kBetweenAttempts : kBetweenLooks, stop);
  }
  return {.reason = RefusalReason::kCancelled, .message = "stopped by the caller"};
}

}  // namespace distlock
