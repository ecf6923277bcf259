// SPDX-License-Identifier: Apache-2.0
#include "rpc/refusal.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "rpc/convert.h"
#include "rpc/ids.h"
#include "rpc/utf8.h"

namespace distlock::rpc {
namespace {

using core::RefusalReason;

constexpr size_t kShownOwnerBytes = 96;
// Clients drop a call whose trailers pass 8 KiB.
constexpr int kMaxViolations = 16;
// The store shows no more holders.
constexpr size_t kMostHolders = 16;
constexpr size_t kMaxMessageBytes = 1024;
constexpr core::Duration kRetryUnavailable = std::chrono::seconds(1);
constexpr core::Duration kRetryOverload = std::chrono::milliseconds(200);

std::string HeldBy(const std::vector<core::HolderView>& views) {
  if (views.empty()) return "";
  const auto named = std::find_if(views.begin(), views.end(), [](const auto& view) { return !IsBlocked(view.owner); });
  if (named == views.end()) return "blocked by the lock_delay of its last holder";
  const v1::Holder holder = HolderOf(*named);
  const char* const and_more = views.size() < kMostHolders ? " and " : " and at least ";
  const std::string more = views.size() > 1 ? absl::StrCat(and_more, views.size() - 1, " more") : "";
  const std::string id = absl::StrCat("holder ", holder.holder_id());
  if (holder.owner().empty()) return absl::StrCat("held by ", id, more);
  return absl::StrCat("held by \"", Shorten(holder.owner(), kShownOwnerBytes), "\" (", id, ")", more);
}

std::string QueueNote(uint32_t length) {
  return length == 0 ? "" : absl::StrCat(", ", length, length == 1 ? " waiter" : " waiters", " in the queue");
}

std::string HeldMessage(const core::Refused& refused, const std::string& lock) {
  const std::string by = HeldBy(refused.holders);
  return absl::StrCat(lock, " is ", by.empty() ? "not free" : by, QueueNote(refused.queue_length),
                      "; retry later, or set max_wait to wait in the queue");
}

std::string TimeoutMessage(const core::Refused& refused, const std::string& lock) {
  const std::string by = HeldBy(refused.holders);
  return absl::StrCat(lock, " was not free within max_wait (waited ", Show(refused.waited),
                      "): ", by.empty() ? "not granted" : by, QueueNote(refused.queue_length),
                      "; wait longer, or ask its holder");
}

std::string Because(const std::string& cause) { return cause.empty() ? "" : absl::StrCat(": ", CleanText(cause)); }

std::string MessageOf(const core::Refused& refused, const std::string& lock) {
  const std::string because = Because(refused.cause);
  switch (refused.reason) {
    case RefusalReason::kLockHeld:
      return HeldMessage(refused, lock);
    case RefusalReason::kWaitTimeout:
      return TimeoutMessage(refused, lock);
    case RefusalReason::kLeaseLost:
      return absl::StrCat("the lease of ", lock, " was lost", because);
    case RefusalReason::kNotHolder:
      return absl::StrCat("the lease of ", lock, " is not held any more", because,
                          "; a lost lease never comes back: stop what it protects, then acquire again");
    case RefusalReason::kLimitMismatch:
      return absl::StrCat(lock, " cannot be taken so now", because,
                          "; EXCLUSIVE and SHARED mix, PERMIT only with the same limit, and a request_id keeps its "
                          "mode: use one way, or another key");
    case RefusalReason::kForeignKey:
      return absl::StrCat("the store has something else under the name of ", lock, because,
                          "; delete that key, or give the broker another --key-prefix");
    case RefusalReason::kQuotaExceeded:
      return absl::StrCat(lock, " was refused by a limit of the broker", because);
    case RefusalReason::kStoreFull:
      return absl::StrCat("the store is out of memory", because, "; raise its maxmemory, releases still work");
    case RefusalReason::kStoreUnavailable:
      return absl::StrCat("the store cannot serve ", lock, " now", because,
                          "; retry. An acquire refused so holds nothing; a lease lasts as long as its valid_for");
    case RefusalReason::kQuorumNotReached:
      return absl::StrCat("too few stores confirmed ", lock, because, "; nothing is held, retry later");
    case RefusalReason::kDraining:
      return DrainingRefusal().message();
    case RefusalReason::kCancelled:
      return absl::StrCat("the acquire of ", lock, " was withdrawn and holds nothing");
    default:
      return absl::StrCat(lock, " was refused", because);
  }
}

bool IsUnavailable(RefusalReason reason) {
  return reason == RefusalReason::kStoreUnavailable || reason == RefusalReason::kQuorumNotReached ||
         reason == RefusalReason::kDraining;
}

grpc::StatusCode CodeOf(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kLockHeld:
    case RefusalReason::kWaitTimeout:
    case RefusalReason::kLeaseLost:
      return grpc::StatusCode::ABORTED;
    case RefusalReason::kNotHolder:
    case RefusalReason::kLimitMismatch:
    case RefusalReason::kForeignKey:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case RefusalReason::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case RefusalReason::kNotSupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    case RefusalReason::kQuotaExceeded:
    case RefusalReason::kStoreFull:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case RefusalReason::kStoreUnavailable:
    case RefusalReason::kQuorumNotReached:
    case RefusalReason::kDraining:
      return grpc::StatusCode::UNAVAILABLE;
    case RefusalReason::kUnauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case RefusalReason::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case RefusalReason::kCancelled:
      return grpc::StatusCode::CANCELLED;
  }
  return grpc::StatusCode::INTERNAL;
}

std::string_view NameOf(v1::RefusalReason reason) {
  std::string_view name = v1::RefusalReason_Name(reason);
  name.remove_prefix(std::string_view("REFUSAL_REASON_").size());
  return name;
}

std::string_view NameOf(v1::LostReason reason) {
  std::string_view name = v1::LostReason_Name(reason);
  name.remove_prefix(std::string_view("LOST_REASON_").size());
  return name;
}

void AddResource(const v1::Refusal& refusal, const core::LockName& about, google::rpc::Status* status) {
  if (about.empty()) return;
  const auto [ns, key] = about.Decode();
  google::rpc::ResourceInfo resource;
  resource.set_resource_type("lock");
  resource.set_resource_name(CleanText(absl::StrCat(ns, "/", key)));
  if (refusal.holders_size() > 0) {
    resource.set_owner(refusal.holders(0).owner());
    resource.set_description(refusal.holders(0).blocked()
                                 ? std::string("nobody holds it: a lock_delay is running")
                                 : absl::StrCat("held by holder ", refusal.holders(0).holder_id()));
  }
  status->add_details()->PackFrom(resource);
}

grpc::Status Pack(const google::rpc::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message(), status.SerializeAsString()};
}

grpc::Status LostWith(v1::LostReason reason, const std::string& message, const core::LockName& about) {
  google::rpc::Status status;
  status.set_code(grpc::StatusCode::ABORTED);
  status.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason("LEASE_LOST");
  info.set_domain("distlock");
  (*info.mutable_metadata())["lost_reason"] = std::string(NameOf(reason));
  status.add_details()->PackFrom(info);
  AddResource({}, about, &status);
  return Pack(status);
}

}  // namespace

// The contract numbers its reasons in the core's order, from 1.
static_assert(v1::REFUSAL_REASON_LOCK_HELD == static_cast<int>(RefusalReason::kLockHeld) + 1);
static_assert(v1::REFUSAL_REASON_CANCELLED == static_cast<int>(RefusalReason::kCancelled) + 1);
static_assert(v1::LOST_REASON_DRAINED == static_cast<int>(core::LostReason::kDrained) + 1);

v1::RefusalReason ReasonOf(RefusalReason reason) {
  return static_cast<v1::RefusalReason>(static_cast<int>(reason) + 1);
}

RefusalReason ReasonOf(v1::RefusalReason reason) { return static_cast<RefusalReason>(static_cast<int>(reason) - 1); }

v1::LostReason LostReasonOf(core::LostReason reason) {
  return static_cast<v1::LostReason>(static_cast<int>(reason) + 1);
}

v1::Refusal RefusalOf(const core::Refused& refused, const core::LockName& about) {
  const core::LockName& lock = refused.about.empty() ? about : refused.about;
  v1::Refusal refusal = MakeRefusal(refused.reason, MessageOf(refused, Show(lock)), refused.retry_after);
  *refusal.mutable_waited() = ToProto(refused.waited);
  // The first is the one who is named: a share that is blocked only when nobody else has one.
  std::vector<core::HolderView> holders = refused.holders;
  std::stable_partition(holders.begin(), holders.end(), [](const auto& view) { return !IsBlocked(view.owner); });
  for (const core::HolderView& holder : holders) *refusal.add_holders() = HolderOf(holder);
  refusal.set_queue_length(refused.queue_length);
  return refusal;
}

v1::Refusal MakeRefusal(RefusalReason reason, std::string message, core::Duration retry_after) {
  v1::Refusal refusal;
  refusal.set_reason(ReasonOf(reason));
  refusal.set_message(std::move(message));
  if (retry_after <= core::Duration::zero() && IsUnavailable(reason)) retry_after = kRetryUnavailable;
  if (retry_after > core::Duration::zero()) *refusal.mutable_retry_after() = ToProto(retry_after);
  return refusal;
}

v1::Refusal DrainingRefusal() {
  return MakeRefusal(RefusalReason::kDraining, "this broker is going down: ask another one, or retry when it is back");
}

v1::Refusal OverloadRefusal() {
  return MakeRefusal(RefusalReason::kQuotaExceeded,
                     "this broker is overloaded (its mailbox is full, see --mailbox-capacity): nothing was done, retry",
                     kRetryOverload);
}

v1::Refusal StoreRefusal(const absl::Status& status, const core::LockName& about) {
  core::Refused refused{.reason = RefusalReason::kStoreUnavailable, .cause = std::string(status.message())};
  if (absl::IsFailedPrecondition(status)) refused.reason = RefusalReason::kForeignKey;
  if (absl::IsCancelled(status)) refused.reason = RefusalReason::kDraining;
  return RefusalOf(refused, about);
}

grpc::Status StatusOf(const v1::Refusal& refusal, const core::LockName& about) {
  google::rpc::Status status;
  status.set_code(CodeOf(ReasonOf(refusal.reason())));
  status.set_message(refusal.message().size() <= kMaxMessageBytes ? refusal.message()
                                                                  : Shorten(refusal.message(), kMaxMessageBytes));
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(NameOf(refusal.reason())));
  info.set_domain("distlock");
  if (refusal.queue_length() > 0) (*info.mutable_metadata())["queue_length"] = absl::StrCat(refusal.queue_length());
  if (refusal.holders_size() > 0) {
    auto& facts = *info.mutable_metadata();
    if (refusal.holders(0).blocked()) facts["blocked"] = "true";
    if (!refusal.holders(0).holder_id().empty()) facts["holder_id"] = refusal.holders(0).holder_id();
    facts["fencing_token"] = absl::StrCat(refusal.holders(0).fencing_token());
  }
  status.add_details()->PackFrom(info);
  if (refusal.has_retry_after()) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = refusal.retry_after();
    status.add_details()->PackFrom(retry);
  }
  if (refusal.field_problems_size() > 0) {
    google::rpc::BadRequest bad;
    for (const v1::FieldProblem& problem : refusal.field_problems()) {
      if (bad.field_violations_size() == kMaxViolations) break;
      auto* violation = bad.add_field_violations();
      violation->set_field(problem.field());
      violation->set_description(problem.description());
    }
    status.add_details()->PackFrom(bad);
  }
  AddResource(refusal, about, &status);
  return Pack(status);
}

std::string LostMessage(const core::Lost& lost) {
  const std::string lock = Show(lost.name);
  const std::string because = Because(lost.cause);
  switch (lost.reason) {
    case core::LostReason::kExpired:
      return absl::StrCat("the lease of ", lock, " could not be renewed in time", because,
                          "; another may hold it soon: stop what it protects, then acquire again");
    case core::LostReason::kTaken:
      return absl::StrCat("the store no longer knows the lease of ", lock, ", or knows another holder", because,
                          "; stop what it protects, then acquire again");
    case core::LostReason::kForced:
      return absl::StrCat("an administrator released ", lock, because, "; stop what it protects");
    case core::LostReason::kMaxHold:
      return absl::StrCat("the max_hold of ", lock, " passed; finish sooner, or ask for a longer one");
    case core::LostReason::kDrained:
      return absl::StrCat("the broker went down and its drain timeout passed; acquire ", lock, " again elsewhere");
  }
  return absl::StrCat("the lease of ", lock, " was lost", because);
}

grpc::Status LostStatus(const core::Lost& lost) {
  return LostWith(LostReasonOf(lost.reason), LostMessage(lost), lost.name);
}

grpc::Status LapsedStatus(core::Duration validity) {
  return LostWith(v1::LOST_REASON_EXPIRED,
                  absl::StrCat("no heartbeat came for ", Show(validity),
                               ": the session has lapsed and its leases are given up; send Heartbeat every ",
                               Show(validity / 3), " and open a new session"),
                  {});
}

}  // namespace distlock::rpc
