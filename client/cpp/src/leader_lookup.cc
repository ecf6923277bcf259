// SPDX-License-Identifier: Apache-2.0
#include "leader_lookup.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace distlock::internal {
namespace {

constexpr auto kLookTimeout = std::chrono::seconds(5);
constexpr auto kBetweenLooks = std::chrono::seconds(1);
constexpr int kLooksBeforeWatch = 10;  // then try Watch again: the broker or proxy may be another now

}  // namespace

void Pause(Duration length, const std::stop_token& stop) {
  std::mutex mu;
  std::condition_variable_any never;
  std::unique_lock lock(mu);
  never.wait_for(lock, stop, length, [] { return false; });
}

Refusal WatchAgainAndAgain(Core& core,
                           const std::function<grpc::Status(Lookups::Connection&, const std::stop_token& end)>& watch,
                           const std::stop_token& stop) {
  if (auto refusal = core.Unusable()) return *std::move(refusal);
  std::stop_source end;
  const std::stop_callback on_stop(stop, [&] { end.request_stop(); });
  const std::stop_callback on_closing(core.lookups().closing(), [&] { end.request_stop(); });
  Backoff backoff(core.options().reconnect_initial, core.options().reconnect_max);
  while (!end.stop_requested()) {
    const std::shared_ptr<Lookups::Connection> connection = core.lookups().Connect();
    if (connection == nullptr) break;
    const int64_t began_ns = BootNow();
    const grpc::Status status = watch(*connection, end.get_token());
    if (end.stop_requested()) break;
    const Refusal why = status.ok() ? Refusal{} : ToRefusal(status);
    if (IsPermanent(why.reason) || status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return why;
    // A watch that lived longer than any pause counts as a success.
    if (BootNow() - began_ns > core.options().reconnect_max.count()) backoff.Reset();
    Pause(backoff.Next(why.retry_after), end.get_token());
  }
  if (!stop.stop_requested()) return core.Unusable().value_or(ClosedRefusal());
  return {.reason = RefusalReason::kCancelled, .message = "stopped by the caller"};
}

LeaderLookup::LeaderLookup(std::shared_ptr<Core> core, const std::string& name_space, const std::string& key)
    : core_(std::move(core)) {
  look_.set_namespace_(name_space);
  look_.set_key(key);
  watch_.set_namespace_(name_space);
  watch_.set_key(key);
}

Result<v1::LockInfo> LeaderLookup::Look() {
  if (auto refusal = core_->Unusable()) return *std::move(refusal);
  const std::shared_ptr<Connection> connection = core_->lookups().Connect();
  if (connection == nullptr) return ClosedRefusal();
  v1::LockInfo lock;
  const grpc::Status status = Look(*connection, &lock, core_->lookups().closing());
  if (status.ok()) return lock;
  if (auto refusal = core_->Unusable()) return *std::move(refusal);
  return ToRefusal(status);
}

Refusal LeaderLookup::Observe(const TellLock& tell, const std::stop_token& stop) {
  if (auto refusal = core_->Unusable()) return *std::move(refusal);
  std::stop_source end;
  const std::stop_callback on_stop(stop, [&] { end.request_stop(); });
  const std::stop_callback on_closing(core_->lookups().closing(), [&] { end.request_stop(); });
  Backoff backoff(core_->options().reconnect_initial, core_->options().reconnect_max);
  int looks_before_watch = 0;
  while (!end.stop_requested()) {
    const std::shared_ptr<Connection> connection = core_->lookups().Connect();
    if (connection == nullptr) break;
    const bool watching = looks_before_watch == 0;
    v1::LockInfo lock;
    const int64_t began_ns = BootNow();
    const grpc::Status status =
        watching ? Watch(*connection, tell, end.get_token()) : Look(*connection, &lock, end.get_token());
    if (end.stop_requested()) break;
    if (watching && status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
      looks_before_watch = kLooksBeforeWatch;
      continue;
    }
    if (!watching && status.ok()) {
      tell(lock);
      --looks_before_watch;
      backoff.Reset();
      Pause(kBetweenLooks, end.get_token());
      continue;
    }
    const Refusal why = status.ok() ? Refusal{} : ToRefusal(status);
    if (IsPermanent(why.reason)) return why;
    // A watch that lived longer than any pause counts as a success.
    if (watching && BootNow() - began_ns > core_->options().reconnect_max.count()) backoff.Reset();
    looks_before_watch = 0;
    Pause(backoff.Next(why.retry_after), end.get_token());
  }
  if (!stop.stop_requested()) return core_->Unusable().value_or(ClosedRefusal());
  return {.reason = RefusalReason::kCancelled, .message = "stopped by the caller"};
}

grpc::Status LeaderLookup::Look(Connection& connection, v1::LockInfo* lock, const std::stop_token& stop) const {
  grpc::ClientContext call;
  core_->lookups().Authorize(call);
  const std::stop_callback on_stop(stop, [&] { call.TryCancel(); });
  call.set_deadline(std::chrono::system_clock::now() + kLookTimeout);
  call.set_wait_for_ready(true);
  v1::GetLockResponse response;
  const grpc::Status status = connection.locks->GetLock(&call, look_, &response);
  lock->Swap(response.mutable_lock());
  return status;
}

grpc::Status LeaderLookup::Watch(Connection& connection, const TellLock& tell, const std::stop_token& stop) const {
  grpc::ClientContext call;
  core_->lookups().Authorize(call);
  const std::stop_callback on_stop(stop, [&] { call.TryCancel(); });
  const auto stream = connection.locks->WatchLock(&call, watch_);
  v1::WatchLockResponse response;
  while (stream->Read(&response)) tell(response.lock());
  return stream->Finish();
}

}  // namespace distlock::internal
