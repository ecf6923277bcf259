// SPDX-License-Identifier: Apache-2.0
//
// SessionCall: turns a command into the core's input, or into a refusal.
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/downgrade.h"
#include "contract/holder_info.h"
#include "contract/ids.h"
#include "contract/lease_id.h"
#include "contract/refusal.h"
#include "contract/validate.h"
#include "core/limits.h"
#include "rpc/stream/session.h"
#include "shard/boot_clock.h"

namespace distlock::rpc {

using core::RefusalReason;

SessionCall::Ready SessionCall::Check(const v1::SessionCommand& command) {
  switch (command.command_case()) {
    case v1::SessionCommand::kAcquire:
      return CheckAcquire(command);
    case v1::SessionCommand::kAcquireAll:
      return CheckAcquireAll(command);
    case v1::SessionCommand::kRelease:
      return CheckRelease(command);
    case v1::SessionCommand::kDowngrade:
      return CheckDowngrade(command);
    case v1::SessionCommand::kCancel:
      rate_.Charge(shard::BootNow());
      return {command.id(), 1, core::Cancel{session_, command.cancel().acquire_id()}};
    case v1::SessionCommand::kHeartbeat:
      return {0, 1, core::Heartbeat{session_, command.heartbeat().seq()}};
    case v1::SessionCommand::kGoodbye:
      return {0, 1, core::Goodbye{session_}};
    default:
      return {command.id(), 1,
              contract::MakeRefusal(RefusalReason::kNotSupported, "this version does not know this command")};
  }
}

std::optional<v1::Refusal> SessionCall::RateOrDrainRefusal() {
  if (!rate_.Take(shard::BootNow())) {
    return contract::MakeRefusal(RefusalReason::kQuotaExceeded,
                                 absl::StrCat("more than ", frontend_.limits.requests_per_second,
                                              " requests per second in this session (--requests-per-second)"),
                                 rate_.Wait());
  }
  if (frontend_.admission.draining()) return contract::DrainingRefusal();
  return std::nullopt;
}

SessionCall::Ready SessionCall::CheckAcquire(const v1::SessionCommand& command) {
  if (auto refusal = RateOrDrainRefusal()) return {command.id(), 1, *std::move(refusal)};
  contract::Validator check(frontend_.limits);
  core::Acquire acquire = check.Spec(command.acquire(), "acquire", /*detached=*/false);
  if (!check.ok()) return {command.id(), 1, check.Refusal()};
  acquire.session = session_;
  acquire.request = command.id();
  acquire.owner = contract::RandomOwnerId();
  acquire.info = contract::MakeInfo(command.acquire(), frontend_.broker_id, shards_.ShardOf(acquire.name));
  return {command.id(), 1, std::move(acquire)};
}

SessionCall::Ready SessionCall::CheckAcquireAll(const v1::SessionCommand& command) {
  const auto& locks = command.acquire_all().locks();
  const auto ids = static_cast<core::RequestId>(locks.size());
  contract::Validator check(frontend_.limits);
  if (locks.empty() || locks.size() > static_cast<int>(core::kMaxTogether)) {
    check.Bad("acquire_all.locks",
              absl::StrCat("has ", locks.size(), " locks; 1..", core::kMaxTogether, " are allowed"));
    return {command.id(), 1, check.Refusal()};
  }
  if (auto refusal = RateOrDrainRefusal()) return {command.id(), ids, *std::move(refusal)};
  std::vector<const v1::LockSpec*> specs;
  for (const v1::LockSpec& spec : locks) specs.push_back(&spec);
  core::AcquireAll all{
      check.Specs(specs, [](size_t i) { return absl::StrCat("acquire_all.locks[", i, "]"); }, /*detached=*/false)};
  if (!check.ok()) return {command.id(), ids, check.Refusal()};
  for (size_t i = 0; i < all.parts.size(); ++i) {
    all.parts[i].session = session_;
    all.parts[i].request = command.id() + i;
    all.parts[i].owner = contract::RandomOwnerId();
    all.parts[i].info = contract::MakeInfo(*specs[i], frontend_.broker_id, shards_.ShardOf(all.parts.front().name));
  }
  return {command.id(), ids, std::move(all)};
}

SessionCall::Ready SessionCall::CheckRelease(const v1::SessionCommand& command) {
  rate_.Charge(shard::BootNow());
  core::Release release{.session = session_,
                        .request = command.id(),
                        .acquire = command.release().acquire_id(),
                        .name = {},
                        .lapsed = command.release().lapsed()};
  if (release.acquire != 0) return {command.id(), 1, std::move(release)};
  contract::Validator check(frontend_.limits);
  contract::LeaseId lease = check.Lease(command.release().lease_id(), "release.lease_id");
  if (check.ok() && lease.depth > 1)
    check.Bad("release.lease_id", "is of a detached lease taken again: it goes to Release");
  if (!check.ok()) return {command.id(), 1, check.Refusal()};
  release.name = std::move(lease.name);
  release.owner = lease.owner;
  release.token = lease.token;
  release.ttl = lease.ttl;
  return {command.id(), 1, std::move(release)};
}

SessionCall::Ready SessionCall::CheckDowngrade(const v1::SessionCommand& command) {
  rate_.Charge(shard::BootNow());
  const v1::DowngradeLease& wanted = command.downgrade();
  auto checked = contract::CheckDowngrade(frontend_.limits, wanted.acquire_id(), wanted.lease_id(), "downgrade");
  if (auto* refusal = std::get_if<v1::Refusal>(&checked)) return {command.id(), 1, std::move(*refusal)};
  auto& downgrade = std::get<core::Downgrade>(checked);
  downgrade.session = session_;
  downgrade.request = command.id();
  return {command.id(), 1, std::move(downgrade)};
}

}  // namespace distlock::rpc
