// SPDX-License-Identifier: Apache-2.0
#include "distlock/election.h"

#include <utility>

#include "acquirer.h"
#include "distlock/client.h"
#include "leader_lookup.h"

namespace distlock {
namespace {

using internal::Acquirer;
using internal::Core;
using internal::Spec;

// The request of a candidate: the lock, with `value` among its metadata.
std::shared_ptr<const Spec> CandidateSpec(std::string name, std::string value, LockOptions options) {
  const bool clash = options.metadata.count(kElectionValue) > 0;
  if (!clash) options.metadata.emplace(kElectionValue, std::move(value));
  std::shared_ptr<const Spec> spec = internal::MakeSpec(std::move(name), std::move(options));
  if (!clash || spec->problem) return spec;
  Refusal problem{.reason = RefusalReason::kInvalidArgument};
  problem.field_problems.push_back(
      {"lock.metadata", std::string("has an entry \"") + kElectionValue +
                            "\", under which an election shows its value: give that as the value"});
  problem.message = problem.field_problems.front().field + " " + problem.field_problems.front().description;
  auto refused = std::make_shared<Spec>(*spec);
  refused->problem = std::move(problem);
  return refused;
}

Refusal LeadsNothing() { return {.reason = RefusalReason::kNotHolder, .message = "this Leadership leads nothing"}; }

std::optional<Leader> LeaderOf(const v1::LockInfo& lock) {
  if (lock.holders().empty()) return std::nullopt;
  const Holder holder = internal::ToHolder(lock.holders(0));
  const auto value = holder.metadata.find(kElectionValue);
  return Leader{.value = value == holder.metadata.end() ? "" : value->second,
                .owner = holder.owner,
                .holder_id = holder.holder_id,
                .token = holder.fencing_token,
                .acquire_time = holder.acquire_time};
}

}  // namespace

std::optional<Refusal> Leadership::Proclaim(std::string value) {
  if (internal::OnLibraryThread()) {
    return Refusal{
        .reason = RefusalReason::kWouldDeadlock,
        .message = "Proclaim waits for the broker and must not be called from a callback; use ProclaimAsync"};
  }
  if (guard_.lease_ == nullptr) return LeadsNothing();
  internal::Awaited<std::optional<Refusal>> answer(guard_.core_->waiting());
  guard_.core_->Proclaim(guard_.lease_, kElectionValue, std::move(value), answer.callback());
  return answer.Wait();
}

void Leadership::ProclaimAsync(std::string value, ProclaimCallback callback) {
  if (guard_.lease_ != nullptr) {
    return guard_.core_->Proclaim(guard_.lease_, kElectionValue, std::move(value),
                                  guard_.core_->ForProgram(std::move(callback)));
  }
  if (!callback) return;
  internal::RunApart([callback = std::move(callback)]() mutable { callback(LeadsNothing()); });
}

Election::Election(Client& client, std::string name, std::string value, LockOptions options)
    : core_(client.core_),
      lookup_(std::make_shared<internal::LeaderLookup>(client.core_, options.lock_namespace, name)),
      spec_(CandidateSpec(std::move(name), std::move(value), std::move(options))) {}

Result<Leadership> Election::Campaign(std::stop_token cancel) {
  return Elected(Acquirer(core_, spec_).Acquire(cancel));
}
Result<Leadership> Election::TryCampaign() { return Elected(Acquirer(core_, spec_).TryAcquire()); }
Result<Leadership> Election::CampaignFor(Duration max_wait, std::stop_token cancel) {
  return Elected(Acquirer(core_, spec_).TryAcquireFor(max_wait, cancel));
}

PendingLock Election::CampaignAsync(CampaignCallback callback) {
  return Acquirer(core_, spec_).AcquireAsync([callback = std::move(callback)](Result<Guard> answer) mutable {
    callback(Elected(std::move(answer)));
  });
}

Result<Leadership> Election::Elected(Result<Guard> answer) {
  if (!answer.ok()) return answer.refusal();
  return Leadership(std::move(answer).value());
}

Result<std::optional<Leader>> Election::Look() {
  if (internal::OnLibraryThread()) {
    return Refusal{.reason = RefusalReason::kWouldDeadlock, .message = "called from a callback; look from a thread"};
  }
  const Result<v1::LockInfo> lock = lookup_->Look();
  if (!lock.ok()) return lock.refusal();
  return LeaderOf(*lock);
}

Refusal Election::Observe(const std::function<void(const std::optional<Leader>&)>& on_change, std::stop_token stop) {
  if (internal::OnLibraryThread()) {
    return {.reason = RefusalReason::kWouldDeadlock, .message = "called from a callback; observe from a thread"};
  }
  bool told_any = false;
  std::optional<Leader> told;
  const auto tell = [&](const v1::LockInfo& lock) {
    const std::optional<Leader> leader = LeaderOf(lock);
    if ((told_any && told == leader) || stop.stop_requested()) return;
    told_any = true;
    told = leader;
    on_change(leader);
  };
  return lookup_->Observe(tell, stop);
}

}  // namespace distlock
