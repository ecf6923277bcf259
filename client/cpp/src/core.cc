// SPDX-License-Identifier: Apache-2.0
#include "core.h"

#include <iterator>
#include <utility>
#include <vector>

namespace distlock::internal {
namespace {

LockTable::Options TableOptions(const ClientOptions& options) {
  return {.address = options.address,
          .brokers = SplitAddresses(options.address).size(),
          .label = CleanLabel(options.client_label),
          .unreachable_timeout_ns = options.unreachable_timeout.count(),
          .connect_timeout_ns = options.connect_timeout.count(),
          .reissue_waits = options.reissue_waits};
}

Refusal ForkedRefusal() {
  return {.reason = RefusalReason::kClientClosed,
          .message =
              "this process was forked while its parent had a Client, which it cannot share: call exec, or fork "
              "before the first Client is made"};
}

// Duration::max() means for ever, which the broker knows as no max_wait.
std::optional<Duration> Bounded(std::optional<Duration> max_wait) {
  return max_wait == Duration::max() ? std::nullopt : max_wait;
}

// ForkCount() never has this value.
constexpr uint64_t kNowhere = ~uint64_t{0};

}  // namespace

Core::Core(ClientOptions options, const MakeTransport& make_transport)
    : options_(std::move(options)),
      made_in_(GrpcIsTheParents() ? kNowhere : ForkCount()),
      addresses_(options_.address),
      lookups_(options_, options_.connect_at_once ? addresses_.all() : SplitAddresses(options_.address)),
      table_(TableOptions(options_)),
      wanted_(options_.connect_at_once),
      reconnects_(options_.reconnect_initial, options_.reconnect_max) {
  if (Forked()) return;
  transport_ = make_transport(options_, addresses_.all());
  waiting_ = transport_->waiting();
}

void Core::Start() {
  if (Forked()) return;
  thread_ = std::thread([self = shared_from_this()] { self->Run(); });
  MutexLock lock(&mu_);
  WakeThread();
}

LeasePtr Core::Acquire(std::shared_ptr<const Spec> spec, std::optional<Duration> max_wait, LockCallback callback,
                       TellOn where) {
  Effects fx;
  LeasePtr lease;
  if (Forked()) {
    lease = std::make_shared<Lease>(0, std::move(spec));
    fx.refused.emplace_back(std::move(callback), ForkedRefusal());
  } else {
    MutexLock lock(&mu_);
    wanted_ = true;
    lease = table_.Acquire(std::move(spec), Bounded(max_wait), std::move(callback), BootNow(), fx);
    Arm();
  }
  AttendFor(where);
  Answer(fx, where);
  return lease;
}

LeasePtr Core::AcquireAll(const std::vector<std::shared_ptr<const Spec>>& specs, std::optional<Duration> max_wait,
                          std::vector<LockCallback> callbacks, TellOn where) {
  Effects fx;
  LeasePtr first;
  if (Forked()) {
    first = std::make_shared<Lease>(0, specs.front());
    for (LockCallback& callback : callbacks) fx.refused.emplace_back(std::move(callback), ForkedRefusal());
  } else {
    MutexLock lock(&mu_);
    wanted_ = true;
    first = table_.AcquireAll(specs, Bounded(max_wait), std::move(callbacks), BootNow(), fx);
    Arm();
  }
  AttendFor(where);
  Answer(fx, where);
  return first;
}

void Core::Cancel(const LeasePtr& lease, TellOn where) {
  if (Forked()) return;
  Effects fx;
  {
    MutexLock lock(&mu_);
    table_.Cancel(lease, fx);
  }
  Answer(fx, where);
}

void Core::Release(const LeasePtr& lease, ReleaseCallback callback, TellOn where) {
  Effects fx;
  if (callback) AttendFor(where);  // a guard that goes out of scope is told nothing
  if (Forked()) {
    if (callback) fx.released.emplace_back(std::move(callback), ReleaseOutcome::kAlreadyGone);
  } else {
    MutexLock lock(&mu_);
    table_.Release(lease, std::move(callback), BootNow(), fx);
    Arm();
  }
  Answer(fx, where);
}

void Core::Downgrade(const LeasePtr& lease, DowngradeCallback callback, TellOn where) {
  Effects fx;
  if (Forked()) {
    fx.changed.emplace_back(std::move(callback), ForkedRefusal());
  } else {
    MutexLock lock(&mu_);
    table_.Downgrade(lease, std::move(callback), fx);
  }
  AttendFor(where);
  Answer(fx, where);
}

void Core::Proclaim(const LeasePtr& lease, const std::string& name, std::string value, ChangeCallback callback,
                    TellOn where) {
  Effects fx;
  if (Forked()) {
    fx.changed.emplace_back(std::move(callback), ForkedRefusal());
  } else {
    MutexLock lock(&mu_);
    table_.Proclaim(lease, WithMetadata(*lease->spec, name, std::move(value)), std::move(callback), BootNow(), fx);
    WakeThread();
  }
  AttendFor(where);
  Answer(fx, where);
}

void Core::Refuse(LockCallback callback, Refusal refusal) {
  Effects fx;
  fx.refused.emplace_back(std::move(callback), std::move(refusal));
  Post(std::move(fx));
}

LockState Core::StateOf(const LeasePtr& lease) {
  // The deadline first: one that was raised for a later stream comes with the end of this lease.
  const int64_t deadline_ns = lease->deadline_ns.load(std::memory_order_acquire);
  const int64_t now_ns = BootNow();
  EndCause cause = lease->cause.load(std::memory_order_acquire);
  if (cause == EndCause::kNotEnded && Forked()) {
    cause = EndCause::kClientClosed;
    lease->cause.store(cause, std::memory_order_release);  // the child's copy
  }
  if (cause == EndCause::kNotEnded && now_ns >= deadline_ns) {
    // Under the mutex, so that an ack that arrives at this moment cannot extend a lease that is reported as lost.
    MutexLock lock(&mu_);
    Effects fx;
    table_.Notice(lease, BootNow(), fx);
    cause = lease->cause.load(std::memory_order_acquire);
    // The thread stops the tokens: the caller of state() may hold a mutex that their callbacks take.
    std::move(fx.stopped.begin(), fx.stopped.end(), std::back_inserter(posted_.stopped));
    if (cause != EndCause::kNotEnded) WakeThread();
  }
  if (cause == EndCause::kReleased) return LockState::kReleased;
  if (cause != EndCause::kNotEnded) return LockState::kLost;
  const bool at_risk = lease->at_risk.load(std::memory_order_relaxed) || Overdue(deadline_ns, now_ns);
  return at_risk ? LockState::kAtRisk : LockState::kHeld;
}

std::stop_token Core::StopToken(const LeasePtr& lease) {
  if (Forked()) {
    std::stop_source stopped;
    stopped.request_stop();
    return stopped.get_token();
  }
  MutexLock lock(&mu_);
  return table_.StopToken(*lease);
}

void Core::StopsAlso(const LeasePtr& lease, std::stop_source stop) {
  if (Forked()) return;
  {
    MutexLock lock(&mu_);
    if (table_.StopsAlso(*lease, stop)) return;
  }
  stop.request_stop();
}

LockMode Core::ModeOf(const LeasePtr& lease) {
  const auto asked = static_cast<LockMode>(lease->spec->wire.mode());
  if (Forked()) return asked;  // the mutex may be locked for ever
  MutexLock lock(&mu_);
  return lease->downgraded ? LockMode::kShared : asked;
}

std::string Core::EndMessage(const LeasePtr& lease) {
  if (Forked()) return ForkedRefusal().message;
  MutexLock lock(&mu_);
  return lease->end_message;
}

bool Core::connected() {
  if (Forked()) return false;
  MutexLock lock(&mu_);
  return table_.opened();
}

bool Core::draining() {
  if (Forked()) return false;
  MutexLock lock(&mu_);
  return table_.draining();
}

std::optional<Refusal> Core::Unusable() {
  if (Forked()) return ForkedRefusal();
  MutexLock lock(&mu_);
  if (closing_) return ClosedRefusal();
  return std::nullopt;
}

void Core::Close() {
  if (Forked()) {
    // Leaks the Core: its threads do not exist in this process, and its stream is the parent's.
    new std::shared_ptr<Core>(shared_from_this());
    return;
  }
  {
    MutexLock lock(&mu_);
    if (std::exchange(closing_, true)) return;
    table_.Close(BootNow(), posted_);
    timer_.Set(0);
  }
  lookups_.Close();
  Flush();
  if (OnLibraryThread()) {
    thread_.detach();
    return;
  }
  thread_.join();
  const auto ended = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return Ended(); };
  std::vector<Stream*> streams;
  {
    MutexLock lock(&mu_);
    // A broker that has not even answered the Open holds no lock of this client and will not answer the goodbye.
    if (table_.opened()) AwaitFor(mu_, ended, options_.close_timeout);
    for (const Line& line : lines_) {
      if (line.stream == nullptr) continue;
      streams.push_back(line.stream);
      ++line.stream->use.operations;
    }
  }
  for (Stream* stream : streams) CancelStream(stream);
  {
    MutexLock lock(&mu_);
    // A stream that is not done keeps a reference to the Core, with all that it needs, until OnDone.
    if (!AwaitFor(mu_, ended, options_.close_timeout)) return;
  }
  transport_.reset();
}

}  // namespace distlock::internal
