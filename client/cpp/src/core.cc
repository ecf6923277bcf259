// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <absl/time/time.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

namespace distlock::internal {
namespace {

constexpr int kKeepaliveMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kMessageBytes = 4 << 20;

std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options) {
  const auto millis = [](Duration d) {
    const int64_t count = std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
    return static_cast<int>(std::clamp<int64_t>(count, 0, std::numeric_limits<int>::max()));
  };
  grpc::ChannelArguments args;
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, millis(options.reconnect_initial));
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, millis(options.connect_timeout));
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, millis(options.reconnect_max));
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);             // re-issuing is the table's decision
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);          // http_proxy is set for the web, not for the lock broker
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetMaxReceiveMessageSize(kMessageBytes);
  args.SetMaxSendMessageSize(kMessageBytes);
  return grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), args);
}

LockTable::Options TableOptions(const ClientOptions& options) {
  return {.address = options.address,
          .label = CleanLabel(options.client_label),
          .unreachable_timeout_ns = options.unreachable_timeout.count(),
          .connect_timeout_ns = options.connect_timeout.count(),
          .reissue_waits = options.reissue_waits};
}

thread_local Core* telling = nullptr;  // whose program this thread is telling something
thread_local bool library_thread = false;

Refusal ForkedRefusal() {
  return {
      .reason = RefusalReason::kClientClosed,
      .message =
          "this process was forked from the client's, which keeps the connection and the locks; make a Client here"};
}

}  // namespace

Core::Core(ClientOptions options)
    : options_(std::move(options)),
      channel_(MakeChannel(options_)),
      stub_(v1::LockService::NewStub(channel_)),
      call_thread_(std::make_unique<CallThread>()),
      table_(TableOptions(options_)),
      jitter_(std::random_device{}()) {}

std::shared_ptr<grpc::Channel> Core::NewChannel() const { return MakeChannel(options_); }

void Core::Start() {
  thread_ = std::thread([self = shared_from_this()] { self->Run(); });
  absl::MutexLock lock(&mu_);
  WakeThread();
}

bool Core::OnLibraryThread() { return library_thread; }

LeasePtr Core::Acquire(std::shared_ptr<const Spec> spec, std::optional<Duration> max_wait, LockCallback callback) {
  Effects fx;
  if (Forked()) {
    const auto refused = std::make_shared<Lease>(0, std::move(spec));
    callback(ForkedRefusal());
    return refused;
  }
  LeasePtr lease;
  {
    absl::MutexLock lock(&mu_);
    lease = table_.Acquire(std::move(spec), max_wait, std::move(callback), BootNow(), fx);
    Arm();
  }
  Tell(fx, false);
  return lease;
}

LeasePtr Core::AcquireAll(const std::vector<std::shared_ptr<const Spec>>& specs, std::optional<Duration> max_wait,
                          std::vector<LockCallback> callbacks) {
  Effects fx;
  if (Forked()) {
    for (LockCallback& callback : callbacks) callback(ForkedRefusal());
    return std::make_shared<Lease>(0, specs.front());
  }
  LeasePtr first;
  {
    absl::MutexLock lock(&mu_);
    first = table_.AcquireAll(specs, max_wait, std::move(callbacks), BootNow(), fx);
    Arm();
  }
  Tell(fx, false);
  return first;
}

void Core::Cancel(const LeasePtr& lease) {
  if (Forked()) return;
  Effects fx;
  {
    absl::MutexLock lock(&mu_);
    table_.Cancel(lease, fx);
  }
  Tell(fx, false);
}

void Core::Release(const LeasePtr& lease, ReleaseCallback callback) {
  if (Forked()) {
    if (callback) callback(ReleaseOutcome::kAlreadyGone);
    return;
  }
  Effects fx;
  {
    absl::MutexLock lock(&mu_);
    table_.Release(lease, std::move(callback), BootNow(), fx);
  }
  Tell(fx, false);
}

void Core::Downgrade(const LeasePtr& lease, DowngradeCallback callback) {
  if (Forked()) {
    if (callback) callback(ForkedRefusal());
    return;
  }
  Effects fx;
  {
    absl::MutexLock lock(&mu_);
    table_.Downgrade(lease, std::move(callback), fx);
  }
  Tell(fx, false);
}

LockState Core::StateOf(const LeasePtr& lease) {
  // The deadline first: one that was raised for a later stream comes with the end of this lease.
  const int64_t deadline_ns = lease->deadline_ns.load(std::memory_order_acquire);
  EndCause cause = lease->cause.load(std::memory_order_acquire);
  if (cause == EndCause::kNotEnded && Forked()) {
    cause = EndCause::kClientClosed;
    lease->cause.store(cause, std::memory_order_release);  // the child's copy
  }
  if (cause == EndCause::kNotEnded && BootNow() >= deadline_ns) {
    // Under the mutex, so that an answer which arrives this very moment cannot bring back what was called lost.
    absl::MutexLock lock(&mu_);
    Effects fx;
    table_.Notice(lease, BootNow(), fx);
    cause = lease->cause.load(std::memory_order_acquire);
    // The program only looks, perhaps with a mutex held that its callbacks take.
    std::move(fx.stopped.begin(), fx.stopped.end(), std::back_inserter(to_stop_));
    if (cause != EndCause::kNotEnded) WakeThread();
  }
  if (cause == EndCause::kReleased) return LockState::kReleased;
  if (cause != EndCause::kNotEnded) return LockState::kLost;
  return lease->at_risk.load(std::memory_order_relaxed) || quiet() ? LockState::kAtRisk : LockState::kHeld;
}

std::stop_token Core::StopToken(const LeasePtr& lease) {
  if (Forked()) return {};
  absl::MutexLock lock(&mu_);
  return table_.StopToken(*lease);
}

void Core::StopsAlso(const LeasePtr& lease, std::stop_source stop) {
  if (Forked()) return;
  {
    absl::MutexLock lock(&mu_);
    if (table_.StopsAlso(*lease, stop)) return;
  }
  stop.request_stop();
}

std::string Core::EndMessage(const LeasePtr& lease) {
  if (Forked()) return ForkedRefusal().message;
  absl::MutexLock lock(&mu_);
  return lease->end_message;
}

bool Core::connected() {
  if (Forked()) return false;
  absl::MutexLock lock(&mu_);
  return table_.opened();
}

bool Core::draining() {
  if (Forked()) return false;
  absl::MutexLock lock(&mu_);
  return table_.draining();
}

void Core::Tell(Effects& fx, bool on_library_thread) {
  // What the program's own thread has asked for does not wait for what it is told.
  if (!on_library_thread && telling != this) Flush();
  Core* const outer = std::exchange(telling, on_library_thread ? this : telling);
  const bool was_library_thread = std::exchange(library_thread, library_thread || on_library_thread);
  for (auto& [spec, info] : fx.queued) spec->on_queued(info);
  for (auto& [lease, callback] : fx.granted) {
    Guard guard(shared_from_this(), std::move(lease));
    if (callback) callback(std::move(guard));
  }
  for (auto& [callback, refusal] : fx.refused) callback(Result<Guard>(std::move(refusal)));
  for (std::stop_source& stop : fx.stopped) stop.request_stop();
  for (auto& [callback, outcome] : fx.released) {
    if (callback) callback(outcome);
  }
  for (auto& [callback, refusal] : fx.downgraded) {
    if (callback) callback(std::move(refusal));
  }
  if (fx.draining && options_.on_draining) options_.on_draining(*fx.draining);
  fx.Clear();
  library_thread = was_library_thread;
  telling = outer;
  if (telling != this) Flush();
}

void Core::Close() {
  if (Forked()) {
    // Its threads are not here to be joined, nor is the stream ours to end.
    new std::shared_ptr<Core>(shared_from_this());
    return;
  }
  Effects fx;
  {
    absl::MutexLock lock(&mu_);
    if (std::exchange(closing_, true)) return;
    fx.stopped.swap(to_stop_);
    table_.Close(BootNow(), fx);
    timer_.Set(0);
  }
  Tell(fx, false);
  if (OnLibraryThread()) {
    thread_.detach();
    return;
  }
  thread_.join();
  const absl::Duration patience = absl::FromChrono(options_.close_timeout);
  Stream* stream = nullptr;
  {
    absl::MutexLock lock(&mu_);
    // A broker that has not even answered the Open holds nothing of ours and will not answer the goodbye.
    if (table_.opened()) mu_.AwaitWithTimeout(absl::Condition(this, &Core::Ended), patience);
    if (stream_ != nullptr) {
      stream = stream_;
      ++stream->use.count;
    }
  }
  if (stream != nullptr) CancelAndLetGo(stream);
  {
    absl::MutexLock lock(&mu_);
    // A stream that is not done keeps the Core, and all that it needs, until it is.
    if (!mu_.AwaitWithTimeout(absl::Condition(this, &Core::Ended), patience)) return;
  }
  call_thread_.reset();
  stub_.reset();
  channel_.reset();
}

}  // namespace distlock::internal
