// SPDX-License-Identifier: Apache-2.0
#include "leader_lookup.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "unary_call.h"

namespace distlock::internal {
namespace {

constexpr auto kBetweenReadings = std::chrono::seconds(1);
constexpr int kLooksBeforeWatch = 10;  // then try Watch again: the broker or proxy may be another now

Refusal EndedByBroker(const Lookups::Connection& connection) {
  return {.reason = RefusalReason::kUnreachable, .message = "the broker at " + connection.address + " ended the watch"};
}

}  // namespace

void Pause(Duration length, const std::stop_token& stop) {
  std::mutex mu;
  std::condition_variable_any never;
  std::unique_lock lock(mu);
  never.wait_for(lock, stop, length, [] { return false; });
}

Refusal WatchAgainAndAgain(Core& core, const WatchOnce& watch, const std::stop_token& stop, WhenInterrupted then) {
  if (auto refusal = core.Unusable()) return *std::move(refusal);
  std::stop_source end;
  const std::stop_callback on_stop(stop, [&] { end.request_stop(); });
  const std::stop_callback on_closing(core.lookups().closing(), [&] { end.request_stop(); });
  Backoff backoff(core.options().reconnect_initial, core.options().reconnect_max);
  while (!end.stop_requested()) {
    const int64_t began_ns = BootNow();
    auto found = core.lookups().Find(core.options().call_timeout, end.get_token());
    grpc::Status status;
    Refusal why;
    if (found.ok()) {
      status = watch(**found, end.get_token());
      why = status.ok() ? EndedByBroker(**found) : ToRefusal(status);
    } else {
      why = found.refusal();
    }
    if (end.stop_requested()) break;
    if (then == WhenInterrupted::kReturn) return found.ok() && !status.ok() ? AnswerRefusal(status, **found) : why;
    if (IsPermanent(why.reason) || status.error_code() == grpc::StatusCode::UNIMPLEMENTED) return why;
    // A watch that lived longer than any pause counts as a success.
    if (found.ok() && BootNow() - began_ns > core.options().reconnect_max.count()) backoff.Reset();
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
  auto answer = Call<v1::GetLockResponse>(
      *core_, [](Connection& to, auto&&... args) { return to.locks->GetLock(args...); }, look_);
  if (!answer.ok()) return answer.refusal();
  return std::move(*answer->mutable_lock());
}

Refusal LeaderLookup::Observe(const TellLock& tell, const std::stop_token& stop, WhenInterrupted then) {
  if (auto refusal = NotUtf8(watch_)) return *std::move(refusal);
  const auto watch = [&](Connection& connection, const std::stop_token& end) {
    grpc::Status watched = Watch(connection, tell, end);
    if (watched.error_code() != grpc::StatusCode::UNIMPLEMENTED) return watched;
    // The broker cannot report changes; or a proxy does not know the broker yet, and then this fails as well.
    const grpc::Status asked = AskForAWhile(connection, tell, end);
    return asked.error_code() == grpc::StatusCode::UNIMPLEMENTED
               ? grpc::Status(grpc::StatusCode::UNAVAILABLE, asked.error_message())
               : asked;
  };
  return WatchAgainAndAgain(*core_, watch, stop, then);
}

grpc::Status LeaderLookup::AskForAWhile(Connection& connection, const TellLock& tell,
                                        const std::stop_token& stop) const {
  for (int i = 0; i < kLooksBeforeWatch && !stop.stop_requested(); ++i) {
    grpc::ClientContext call;
    connection.Authorize(call);
    const std::stop_callback on_stop(stop, [&] { call.TryCancel(); });
    call.set_deadline(WallTimeIn(core_->options().call_timeout));
    v1::GetLockResponse response;
    const grpc::Status status = connection.locks->GetLock(&call, look_, &response);
    if (!status.ok()) return status;
    tell(response.lock());
    Pause(kBetweenReadings, stop);
  }
  return grpc::Status::OK;
}

grpc::Status LeaderLookup::Watch(Connection& connection, const TellLock& tell, const std::stop_token& stop) const {
  grpc::ClientContext call;
  connection.Authorize(call);
  const std::stop_callback on_stop(stop, [&] { call.TryCancel(); });
  const auto stream = connection.locks->WatchLock(&call, watch_);
  v1::WatchLockResponse response;
  while (stream->Read(&response)) tell(response.lock());
  return stream->Finish();
}

}  // namespace distlock::internal
