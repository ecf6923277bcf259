// SPDX-License-Identifier: Apache-2.0
//
// SessionCall: turns a command into the core's input, or into a refusal.
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/adopt.h"
#include "contract/downgrade.h"
#include "contract/holder_info.h"
#include "contract/ids.h"
#include "contract/lease_id.h"
#include "contract/refusal.h"
#include "contract/to_proto.h"
#include "contract/utf8.h"
#include "contract/validate.h"
#include "core/limits.h"
#include "rpc/stream/session.h"
#include "shard/boot_clock.h"

namespace distlock::rpc {

using core::RefusalReason;

namespace {

// The most that fits into the metadata of a call.
constexpr size_t kMaxProofBytes = size_t{8} << 10;

// Route has refused what is not greater than 0 before the id counts.
core::RequestId IdOf(const v1::SessionCommand& command) { return static_cast<core::RequestId>(command.id()); }

}  // namespace

SessionCall::Ready SessionCall::Check(const v1::SessionCommand& command) {
  switch (command.command_case()) {
    case v1::SessionCommand::kAcquire:
      return CheckAcquire(command);
    case v1::SessionCommand::kRelease:
      return CheckRelease(command);
    case v1::SessionCommand::kDowngrade:
      return CheckDowngrade(command);
    case v1::SessionCommand::kAdopt:
      return CheckAdopt(command);
    case v1::SessionCommand::kAuthenticate:
      return CheckAuthenticate(command);
    case v1::SessionCommand::kCancel:
      rate_.Charge(shard::BootNow());
      return {IdOf(command), 1, core::Cancel{session_, static_cast<uint64_t>(command.cancel().acquire_id())}};
    case v1::SessionCommand::kHeartbeat:
      return {0, 1, core::Heartbeat{session_, static_cast<uint64_t>(command.heartbeat().seq())}};
    case v1::SessionCommand::kGoodbye:
      return {0, 1, core::Goodbye{session_}};
    default:
      return {IdOf(command), 1,
              contract::MakeRefusal(RefusalReason::kNotSupported, "this version does not know this command")};
  }
}

std::optional<v1::Refusal> SessionCall::RateOrDrainRefusal() {
  if (!rate_.Take(shard::BootNow())) {
    return contract::MakeRefusal(RefusalReason::kQuotaExceeded,
                                 absl::StrCat("more than ", frontend_.limits.requests_per_second,
                                              " requests per second in this session (limit requests-per-second)"),
                                 rate_.Wait());
  }
  if (account_ != nullptr) {
    if (auto refusal = TooFast(*account_, subject_.identity(), shard::BootNow())) return refusal;
  }
  if (frontend_.admission.draining()) return contract::DrainingRefusal();
  return std::nullopt;
}

SessionCall::Ready SessionCall::CheckAcquire(const v1::SessionCommand& command) {
  const auto& locks = command.acquire().locks();
  contract::Validator check(frontend_.limits);
  core::AcquireAll all{check.Locks(locks, "acquire.locks", /*detached=*/false)};
  const std::string& request_id = command.acquire().request_id();
  check.RequestId(request_id, "acquire.request_id");
  // Too few or too many: answered under the command's id alone.
  if (all.parts.empty()) return {IdOf(command), 1, check.Refusal()};
  const auto ids = static_cast<core::RequestId>(locks.size());
  if (auto refusal = RateOrDrainRefusal()) return {IdOf(command), ids, *std::move(refusal)};
  if (!check.ok()) return {IdOf(command), ids, check.Refusal()};
  for (const v1::LockSpec& lock : locks) {
    if (auto denied = frontend_.authorizer.CheckAcquire(subject_, lock))
      return {IdOf(command), ids, *std::move(denied)};
  }
  const std::string identity = subject_.identity();
  const std::string request = contract::RequestOf(frontend_.OwnerIdentity(subject_), request_id);
  const int shard = shards_.ShardOf(all.parts.front().name);
  for (size_t i = 0; i < all.parts.size(); ++i) {
    all.parts[i].session = session_;
    all.parts[i].request = IdOf(command) + i;
    all.parts[i].owner = contract::OwnerIdOnStream(all.parts[i], request, generation_);
    all.parts[i].info = contract::MakeInfo(locks[static_cast<int>(i)], frontend_.broker_id, shard, identity);
  }
  if (ids == 1) return {IdOf(command), 1, std::move(all.parts.front())};
  return {IdOf(command), ids, std::move(all)};
}

SessionCall::Ready SessionCall::CheckRelease(const v1::SessionCommand& command) {
  rate_.Charge(shard::BootNow());
  core::Release release{.session = session_,
                        .request = IdOf(command),
                        .acquire = static_cast<uint64_t>(command.release().acquire_id()),
                        .name = {},
                        .lapsed = command.release().lapsed()};
  contract::Validator check(frontend_.limits);
  check.AcquireId(command.release().acquire_id(), "release.acquire_id");
  if (check.ok() && release.acquire != 0) return {IdOf(command), 1, std::move(release)};
  contract::LeaseId lease;
  if (check.ok()) lease = check.Lease(command.release().lease_id(), "release.lease_id");
  if (!check.ok()) return {IdOf(command), 1, check.Refusal()};
  if (auto denied = frontend_.authorizer.CheckLease(subject_, lease.name))
    return {IdOf(command), 1, *std::move(denied)};
  release.name = std::move(lease.name);
  release.owner = lease.owner;
  release.token = lease.token;
  release.ttl = lease.ttl;
  return {IdOf(command), 1, std::move(release)};
}

SessionCall::Ready SessionCall::CheckDowngrade(const v1::SessionCommand& command) {
  rate_.Charge(shard::BootNow());
  const v1::DowngradeLease& wanted = command.downgrade();
  auto checked = contract::CheckDowngrade(frontend_.limits, wanted.acquire_id(), wanted.lease_id(), "downgrade");
  if (auto* refusal = std::get_if<v1::Refusal>(&checked)) return {IdOf(command), 1, std::move(*refusal)};
  auto& downgrade = std::get<core::Downgrade>(checked);
  // A downgrade of the session's own lease gives up more than it takes: always allowed, as its release is.
  if (auto denied = frontend_.authorizer.CheckLease(subject_, downgrade.name)) {
    return {IdOf(command), 1, *std::move(denied)};
  }
  downgrade.session = session_;
  downgrade.request = IdOf(command);
  return {IdOf(command), 1, std::move(downgrade)};
}

SessionCall::Ready SessionCall::CheckAdopt(const v1::SessionCommand& command) {
  auto checked = contract::CheckAdopt(frontend_.limits, command.adopt(), {generation_, adoptions_.Next()}, "adopt",
                                      frontend_.OwnerIdentity(subject_));
  const auto* adopt = std::get_if<core::Adopt>(&checked);
  const core::RequestId ids = adopt != nullptr ? adopt->hold_count : 1;
  if (auto refusal = RateOrDrainRefusal()) return {IdOf(command), ids, *std::move(refusal)};
  if (auto* refusal = std::get_if<v1::Refusal>(&checked)) return {IdOf(command), 1, std::move(*refusal)};
  if (auto denied = frontend_.authorizer.CheckAcquire(subject_, command.adopt().lock())) {
    return {IdOf(command), ids, *std::move(denied)};
  }
  core::Adopt ready = std::get<core::Adopt>(std::move(checked));
  ready.session = session_;
  ready.request = IdOf(command);
  ready.info =
      contract::MakeInfo(command.adopt().lock(), frontend_.broker_id, shards_.ShardOf(ready.name), subject_.identity());
  return {IdOf(command), ids, std::move(ready)};
}

SessionCall::Ready SessionCall::CheckAuthenticate(const v1::SessionCommand& command) {
  rate_.Charge(shard::BootNow());
  if (!proofs_.Take(shard::BootNow())) {
    return {IdOf(command), 1,
            contract::MakeRefusal(RefusalReason::kQuotaExceeded,
                                  absl::StrCat("more than ", kProofsPerSecond, " new proofs a second in this session"),
                                  proofs_.Wait())};
  }
  contract::Validator check(frontend_.limits);
  check.Text(command.authenticate().authorization(), kMaxProofBytes, "authenticate.authorization");
  if (!check.ok()) return {IdOf(command), 1, check.Refusal()};
  auto arrived = ArriveAgain(command.authenticate().authorization());
  if (auto* refusal = std::get_if<v1::Refusal>(&arrived)) return {IdOf(command), 1, std::move(*refusal)};
  {
    std::lock_guard lock(mu_);
    subject_ = std::get<Subject>(std::move(arrived));
  }
  v1::Authenticated done;
  done.set_identity(contract::CleanText(subject_.identity()));
  if (const auto left = frontend_.authorizer.ProofLeft(subject_)) *done.mutable_valid_for() = contract::ToProto(*left);
  return {IdOf(command), 1, std::move(done)};
}

}  // namespace distlock::rpc
