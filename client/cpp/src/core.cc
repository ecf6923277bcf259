// SPDX-License-Identifier: Apache-2.0
#include "core.h"

namespace distlock::internal {
namespace {

Refusal ForkedRefusal() {
  return {.reason = RefusalReason::kClientClosed,
          .message =
              "this process was forked while its parent had a Client, which it cannot share: call exec, or fork "
              "before the first Client is made"};
}

// ForkCount() never has this value.
constexpr uint64_t kNowhere = ~uint64_t{0};

template <class T>
Engine::Asker AskerOf(const Callback<void(T)>& callback) {
  if (!callback) return Engine::Asker::kNobody;
  return Awaited<T>::Has(callback) ? Engine::Asker::kBlockedCaller : Engine::Asker::kProgram;
}

}  // namespace

template <class T>
void Core::AnswerApart(Callback<void(T)> callback, std::type_identity_t<T> answer) const {
  Effects fx;
  fx.Answer(std::move(callback), std::move(answer));
  fx.RunWithoutThread(options_);
}

Core::Core(ClientOptions options, const MakeTransport& make_transport)
    : options_(std::move(options)),
      made_in_(GrpcIsTheParents() ? kNowhere : ForkCount()),
      engine_(Forked() ? nullptr : std::make_shared<Engine>(options_, make_transport)) {}

void Core::Start() {
  if (!Forked()) engine_->Start();
}

void Core::Close() {
  if (Forked()) {
    // Leaks the Core: its threads do not exist in this process, and its streams are the parent's.
    new std::shared_ptr<Core>(shared_from_this());
    return;
  }
  engine_->Close();
}

RequestPtr Core::Acquire(std::span<const SpecPtr> specs, std::optional<Duration> max_wait, AcquireCallback callback) {
  RequestPtr request;
  if (max_wait == Duration::max()) max_wait = std::nullopt;  // for ever
  if (Forked()) {
    AnswerApart<Result<Leases>>(std::move(callback), ForkedRefusal());
  } else {
    engine_->Turn(AskerOf(callback), [&](LockTable& table, int64_t now_ns, Effects& fx) {
      request = table.Acquire(specs, max_wait, std::move(callback), now_ns, fx);
    });
  }
  return request;
}

void Core::Cancel(const RequestPtr& request) {
  if (Forked() || request == nullptr) return;
  engine_->Turn(Engine::Asker::kNobody, [&](LockTable& table, int64_t, Effects& fx) { table.Cancel(*request, fx); });
}

void Core::Refuse(AcquireCallback callback, Refusal refusal) {
  if (Forked()) return AnswerApart<Result<Leases>>(std::move(callback), std::move(refusal));
  engine_->Turn(AskerOf(callback),
                [&](LockTable&, int64_t, Effects& fx) { fx.Answer(std::move(callback), std::move(refusal)); });
}

void Core::Release(const LeasePtr& lease, ReleaseCallback callback) {
  if (Forked()) return AnswerApart(std::move(callback), ReleaseOutcome::kAlreadyGone);
  engine_->Turn(AskerOf(callback), [&](LockTable& table, int64_t now_ns, Effects& fx) {
    table.Release(lease, std::move(callback), now_ns, fx);
  });
}

void Core::Downgrade(const LeasePtr& lease, ChangeCallback callback) {
  if (Forked()) return AnswerApart<std::optional<Refusal>>(std::move(callback), ForkedRefusal());
  engine_->Turn(AskerOf(callback),
                [&](LockTable& table, int64_t, Effects& fx) { table.Downgrade(lease, std::move(callback), fx); });
}

void Core::Proclaim(const LeasePtr& lease, const std::string& name, std::string value, ChangeCallback callback) {
  if (Forked()) return AnswerApart<std::optional<Refusal>>(std::move(callback), ForkedRefusal());
  engine_->Turn(AskerOf(callback), [&](LockTable& table, int64_t now_ns, Effects& fx) {
    table.Proclaim(lease, WithMetadata(*lease->spec, name, std::move(value)), std::move(callback), now_ns, fx);
  });
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
    engine_->TurnQuietly([&](LockTable& table, int64_t now, Effects& fx) { table.Notice(lease, now, fx); });
    cause = lease->cause.load(std::memory_order_acquire);
  }
  if (cause == EndCause::kReleased) return LockState::kReleased;
  if (cause != EndCause::kNotEnded) return LockState::kLost;
  const bool at_risk = lease->at_risk.load(std::memory_order_relaxed) || engine_->IsOverdue(deadline_ns, now_ns);
  return at_risk ? LockState::kAtRisk : LockState::kHeld;
}

std::stop_token Core::StopToken(const LeasePtr& lease) {
  if (!Forked()) return engine_->With([&](const LockTable&) { return LockTable::StopToken(*lease); });
  std::stop_source stopped;
  stopped.request_stop();
  return stopped.get_token();
}

LockMode Core::ModeOf(const LeasePtr& lease) {
  const auto asked = static_cast<LockMode>(lease->spec->wire.mode());
  if (Forked()) return asked;  // the mutex may be locked for ever
  return engine_->With([&](const LockTable&) { return lease->downgraded ? LockMode::kShared : asked; });
}

std::string Core::EndMessage(const LeasePtr& lease) {
  if (Forked()) return ForkedRefusal().message;
  return engine_->With([&](const LockTable&) { return lease->end_message; });
}

bool Core::connected() {
  return !Forked() && engine_->With([](const LockTable& table) { return table.opened(); });
}

bool Core::draining() {
  return !Forked() && engine_->With([](LockTable& table) { return table.at(table.present()).draining; });
}

std::optional<Refusal> Core::Unusable() {
  if (Forked()) return ForkedRefusal();
  if (engine_->With([](const LockTable& table) { return table.closed(); })) return ClosedRefusal();
  return std::nullopt;
}

}  // namespace distlock::internal
