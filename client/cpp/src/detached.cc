// SPDX-License-Identifier: Apache-2.0
#include "distlock/detached.h"

#include <algorithm>
#include <utility>

#include "distlock/client.h"
#include "distlock/wire/times.h"
#include "leader_lookup.h"
#include "unary_call.h"

namespace distlock {
namespace {

using internal::AddNs;
using internal::BootNow;
using internal::Lookups;

constexpr auto kBetweenTries = std::chrono::milliseconds(100);

// A wait begins when a broker is found, so a short one does not end the search.
Duration PatienceOf(std::optional<Duration> max_wait, Duration unreachable_timeout) {
  if (unreachable_timeout > Duration::zero()) return unreachable_timeout;
  if (max_wait == Duration::zero()) return std::chrono::seconds(1);
  return std::max<Duration>(std::chrono::seconds(10), max_wait.value_or(Duration::zero()));
}

// An answer was lost, and then no broker was found that could say what it was.
Refusal OutcomeUnknown(Refusal refusal) {
  if (refusal.reason == RefusalReason::kUnreachable) refusal.message += "; whether the lock was granted is not known";
  return refusal;
}

}  // namespace

Duration DetachedLease::time_left() const { return std::max(Duration::zero(), Duration(valid_until - BootNow())); }

DetachedLocks::DetachedLocks(Client& client) : core_(client.core_) {}

Result<DetachedLease> DetachedLocks::Acquire(const std::string& key, const LockOptions& options, DetachedMode mode,
                                             const std::string& request_id, std::stop_token cancel) {
  const auto spec = internal::MakeSpec(
      key, options, {.mode = static_cast<v1::LockMode>(mode.mode), .permits = mode.permits, .limit = mode.limit});
  if (spec->problem) return *spec->problem;
  v1::AcquireRequest request;
  *request.add_locks() = spec->wire;
  request.set_request_id(request_id.empty() ? internal::RandomId() : request_id);
  const std::optional<Duration> max_wait = options.max_wait == Duration::max() ? std::nullopt : options.max_wait;
  std::optional<int64_t> give_up_ns;  // set once it was asked for: the wait begins when a broker can hear of it
  const Duration call_timeout = core_->options().call_timeout;
  const Duration patience = PatienceOf(max_wait, core_->options().unreachable_timeout);
  while (true) {
    const auto broker = internal::FindBroker(*core_, patience, cancel);
    if (!broker.ok()) return give_up_ns ? OutcomeUnknown(broker.refusal()) : broker.refusal();
    if (!give_up_ns) give_up_ns = AddNs(BootNow(), max_wait.value_or(Duration::max()).count());
    std::optional<Duration> answer_in;
    if (max_wait) {
      const Duration left(std::max<int64_t>(*give_up_ns - BootNow(), 0));
      *request.mutable_locks(0)->mutable_max_wait() = wire::ToProto(left);
      answer_in = Duration(AddNs(left.count(), call_timeout.count()));
    }
    const int64_t sent_ns = BootNow();
    const auto answer = internal::Ask<v1::AcquireResponse>(
        *core_, **broker, [](Lookups::Connection& to, auto&&... args) { return to.locks->Acquire(args...); }, request,
        answer_in, cancel);
    if (!answer.ok()) {
      const bool lost = answer.refusal().reason == RefusalReason::kUnreachable;
      if (!lost || BootNow() >= AddNs(*give_up_ns, call_timeout.count())) return answer.refusal();
      internal::Pause(kBetweenTries, cancel);
      continue;
    }
    if (answer->grants_size() != 1) {
      return Refusal{.reason = RefusalReason::kInternal,
                     .message = "the broker answered the request for one lock with " +
                                std::to_string(answer->grants_size()) + " grants"};
    }
    const v1::Grant& grant = answer->grants(0);
    const Duration waited = wire::FromProto(grant.waited());
    return DetachedLease{
        .lease_id = grant.lease_id(),
        .holder_id = grant.holder_id(),
        .token = grant.fencing_token(),
        .ttl = wire::FromProto(grant.ttl()),
        .waited = waited,
        .valid_until = AddNs(AddNs(sent_ns, waited.count()), wire::FromProto(grant.valid_for()).count())};
  }
}

Result<DetachedLocks::Renewal> DetachedLocks::Renew(const std::string& lease_id) {
  v1::RenewRequest request;
  request.set_lease_id(lease_id);
  int64_t sent_ns = 0;
  const auto renew = [&sent_ns](Lookups::Connection& to, auto&&... args) {
    sent_ns = BootNow();
    return to.locks->Renew(args...);
  };
  const auto answer = internal::Call<v1::RenewResponse>(*core_, renew, request);
  if (!answer.ok()) return answer.refusal();
  return Renewal{.ttl = wire::FromProto(answer->ttl()),
                 .valid_until = AddNs(sent_ns, wire::FromProto(answer->valid_for()).count())};
}

Result<ReleaseOutcome> DetachedLocks::Release(const std::string& lease_id) {
  v1::ReleaseRequest request;
  request.set_lease_id(lease_id);
  const auto answer = internal::Call<v1::ReleaseResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.locks->Release(args...); }, request);
  if (!answer.ok()) return answer.refusal();
  return internal::ToOutcome(answer->outcome());
}

std::optional<Refusal> DetachedLocks::Downgrade(const std::string& lease_id) {
  v1::DowngradeRequest request;
  request.set_lease_id(lease_id);
  const auto answer = internal::Call<v1::DowngradeResponse>(
      *core_, [](Lookups::Connection& to, auto&&... args) { return to.locks->Downgrade(args...); }, request);
  if (!answer.ok()) return answer.refusal();
  return std::nullopt;
}

}  // namespace distlock
