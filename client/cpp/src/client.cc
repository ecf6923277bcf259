// SPDX-License-Identifier: Apache-2.0
#include "distlock/client.h"

#include <absl/strings/match.h>
#include <absl/strings/str_join.h>
#include <errno.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "addresses.h"
#include "core.h"
#include "distlock/wire/bearer.h"
#include "grpc_transport.h"
#include "tls_channel.h"

namespace distlock {
namespace {

using internal::Core;
using internal::LeasePtr;

ClientOptions Complete(ClientOptions options) {
  if (options.address.empty()) options.address = DefaultAddress();
  const std::vector<std::string> targets = internal::SplitAddresses(options.address);
  options.address = absl::StrJoin(targets, ",");
  const auto refuse = [](const std::string& problem) {
    if (!problem.empty()) throw std::invalid_argument(problem);
  };
  for (const std::string& target : targets) refuse(internal::AddressProblem(target));
  options.tls = internal::WithEnvironment(std::move(options.tls));
  if (absl::StrContains(options.address, internal::kTlsScheme)) refuse(internal::TlsProblem(options.tls));
  refuse(wire::TokenFileProblem(options.address, options.token_file));
  if (options.client_label.empty()) options.client_label = program_invocation_short_name;
  return options;
}

Refusal HoldsNothing() { return {.reason = RefusalReason::kNotHolder, .message = "this guard holds nothing"}; }

}  // namespace

void SilenceGrpc() { internal::SilenceGrpcLog(); }

Client::Client(ClientOptions options)
    : core_(std::make_shared<Core>(Complete(std::move(options)), internal::MakeGrpcTransport)) {
  core_->Start();
}
Client::~Client() { core_->Close(); }

Mutex Client::MakeMutex(std::string key, LockOptions options) {
  return Mutex(*this, std::move(key), std::move(options));
}

RwLock Client::MakeRwLock(std::string key, LockOptions options) {
  return RwLock(*this, std::move(key), std::move(options));
}

Semaphore Client::MakeSemaphore(std::string key, int32_t limit, LockOptions options) {
  return Semaphore(*this, std::move(key), limit, std::move(options));
}

MultiLock Client::MakeMultiLock(LockSet locks) { return MultiLock(*this, std::move(locks)); }

Election Client::MakeElection(std::string name, std::string value, LockOptions options) {
  return Election(*this, std::move(name), std::move(value), std::move(options));
}

PendingLock Client::LockAsync(LockRequest request, LockCallback callback) {
  return MakeMutex(std::move(request.key), std::move(request.options)).LockAsync(std::move(callback));
}

bool Client::connected() const { return core_->connected(); }
bool Client::draining() const { return core_->draining(); }
const std::string& Client::address() const { return core_->options().address; }

Guard::Guard(std::shared_ptr<Core> core, LeasePtr lease) : core_(std::move(core)), lease_(std::move(lease)) {}

Guard& Guard::operator=(Guard&& other) noexcept {
  if (this == &other) return *this;
  if (lease_ != nullptr) core_->Release(lease_, nullptr);
  core_ = std::move(other.core_);
  lease_ = std::move(other.lease_);
  return *this;
}

Guard::~Guard() {
  if (lease_ != nullptr) core_->Release(lease_, nullptr);
}

ReleaseOutcome Guard::Release() {
  if (lease_ == nullptr) return ReleaseOutcome::kAlreadyGone;
  if (internal::OnLibraryThread()) {
    core_->Release(lease_, nullptr);
    return ReleaseOutcome::kUnknown;
  }
  internal::Awaited<ReleaseOutcome> answer(core_->waiting());
  core_->Release(lease_, answer.callback());
  return answer.Wait();
}

void Guard::ReleaseAsync(ReleaseCallback callback) {
  if (lease_ != nullptr) return core_->Release(lease_, core_->ForProgram(std::move(callback)));
  if (callback)
    internal::RunApart([callback = std::move(callback)]() mutable { callback(ReleaseOutcome::kAlreadyGone); });
}

std::optional<Refusal> Guard::Downgrade() {
  if (lease_ == nullptr) return HoldsNothing();
  if (internal::OnLibraryThread()) {
    return Refusal{
        .reason = RefusalReason::kWouldDeadlock,
        .message = "Downgrade waits for the broker and must not be called from a callback; use DowngradeAsync"};
  }
  internal::Awaited<std::optional<Refusal>> answer(core_->waiting());
  core_->Downgrade(lease_, answer.callback());
  return answer.Wait();
}

void Guard::DowngradeAsync(DowngradeCallback callback) {
  if (lease_ != nullptr) return core_->Downgrade(lease_, core_->ForProgram(std::move(callback)));
  if (callback) internal::RunApart([callback = std::move(callback)]() mutable { callback(HoldsNothing()); });
}

LockState Guard::state() const { return lease_ == nullptr ? LockState::kReleased : core_->StateOf(lease_); }

std::stop_token Guard::stop_token() const { return lease_ == nullptr ? std::stop_token() : core_->StopToken(lease_); }

EndCause Guard::end_cause() const {
  if (lease_ == nullptr) return EndCause::kReleased;
  core_->StateOf(lease_);
  return lease_->cause.load(std::memory_order_acquire);
}

std::string Guard::end_message() const { return lease_ == nullptr ? std::string() : core_->EndMessage(lease_); }

int64_t Guard::token() const { return lease_ == nullptr ? 0 : lease_->token; }

int32_t Guard::hold_count() const { return lease_ == nullptr ? 0 : lease_->hold_count; }

const std::string& Guard::lease_id() const {
  static const std::string none;
  return lease_ == nullptr ? none : lease_->names.load(std::memory_order_acquire)->lease_id;
}

const std::string& Guard::holder_id() const {
  static const std::string none;
  return lease_ == nullptr ? none : lease_->names.load(std::memory_order_acquire)->holder_id;
}

int64_t Guard::valid_until() const {
  return lease_ == nullptr ? 0 : lease_->deadline_ns.load(std::memory_order_acquire);
}

Duration Guard::time_left() const {
  if (lease_ == nullptr || core_->StateOf(lease_) > LockState::kAtRisk) return Duration::zero();
  return std::max(Duration::zero(), Duration(valid_until() - internal::BootNow()));
}

const std::string& Guard::key() const {
  static const std::string none;
  return lease_ == nullptr ? none : lease_->spec->wire.key();
}

const std::string& Guard::lock_namespace() const {
  static const std::string none;
  static const std::string usual = "default";
  if (lease_ == nullptr) return none;
  const std::string& given = lease_->spec->wire.namespace_();
  return given.empty() ? usual : given;
}

LockMode Guard::mode() const { return lease_ == nullptr ? LockMode::kExclusive : core_->ModeOf(lease_); }

int32_t Guard::permits() const { return lease_ == nullptr ? 0 : lease_->spec->wire.permits(); }

Duration Guard::waited() const { return Duration(lease_ == nullptr ? 0 : lease_->waited_ns); }

}  // namespace distlock
