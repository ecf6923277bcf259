// SPDX-License-Identifier: Apache-2.0
#include "contract/refusal.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/holder_info.h"
#include "contract/ids.h"
#include "contract/show.h"
#include "contract/to_proto.h"
#include "contract/utf8.h"

namespace distlock::contract {
namespace {

using core::RefusalReason;

constexpr size_t kShownOwnerBytes = 96;
// The store names at most so many holders in a refusal.
constexpr size_t kMostHolders = 16;
constexpr core::Duration kRetryUnavailable = std::chrono::seconds(1);
constexpr core::Duration kRetryOverload = std::chrono::milliseconds(200);

// The block of a min_hold: `ran 3 min ago by root@a, next in 12 min`.
std::string RanBy(const core::HolderView& view) {
  const std::string owner = ParseInfo(view.info).owner();
  const std::string by = owner.empty() ? "" : absl::StrCat(" by ", Shorten(owner, kShownOwnerBytes));
  return absl::StrCat("ran ", ShowRoughly(view.held_for), " ago", by, ", next in ", ShowRoughly(view.time_left));
}

// "": not known, as when there is no holder.
std::string HeldBy(std::span<const core::HolderView> views) {
  if (views.empty()) return "";
  const auto named = std::find_if(views.begin(), views.end(), [](const auto& view) { return !IsBlocked(view.owner); });
  if (named == views.end()) {
    const bool has_run = views.front().min_hold > core::Duration::zero();
    return has_run ? RanBy(views.front()) : "blocked by the lock_delay of its last holder";
  }
  const v1::Holder holder = HolderOf(*named);
  const auto others = std::count_if(named + 1, views.end(), [](const auto& view) { return !IsBlocked(view.owner); });
  const char* const and_more = views.size() < kMostHolders ? " and " : " and at least ";
  const std::string more = others > 0 ? absl::StrCat(and_more, others, " more") : "";
  const std::string id = absl::StrCat("holder ", holder.holder_id());
  if (holder.owner().empty()) return absl::StrCat("held by ", id, more);
  return absl::StrCat("held by \"", Shorten(holder.owner(), kShownOwnerBytes), "\" (", id, ")", more);
}

std::string QueueNote(uint32_t length) {
  return length == 0 ? "" : absl::StrCat(", ", length, length == 1 ? " waiter" : " waiters", " in the queue");
}

std::string HeldMessage(const core::Refused& refused, const std::string& lock) {
  const std::string by = HeldBy(refused.holders);
  return absl::StrCat(lock, by.starts_with("ran ") ? " " : " is ", by.empty() ? "not free" : by,
                      QueueNote(refused.queue_length), "; retry later, or set max_wait to wait in the queue");
}

// Follows "wait longer". A lock that is only blocked, or reserved for the head of its queue, has no holder.
const char* WhomToAsk(const core::HolderList& holders) {
  const bool is_held = std::ranges::any_of(holders, [](const auto& view) { return !IsBlocked(view.owner); });
  if (is_held) return ", or ask its holder";
  return holders.empty() ? "" : ", or end the block: distlockctl force-release";
}

std::string TimeoutMessage(const core::Refused& refused, const std::string& lock) {
  const std::string by = HeldBy(refused.holders);
  return absl::StrCat(lock, " was not free within max_wait (waited ", Show(refused.waited),
                      "): ", by.empty() ? "not granted" : by, QueueNote(refused.queue_length), "; wait longer",
                      WhomToAsk(refused.holders));
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
                          "mode: set max_wait to wait until its holders are gone, or use another key");
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
    case RefusalReason::kStoreHoldOff:
      return absl::StrCat("nobody is newly granted ", lock, QueueNote(refused.queue_length),
                          ": the store was restarted, failed over, or is new, and may have forgotten who holds it "
                          "(hold-off); retry when that is over, or set max_wait to wait in the queue");
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
  return reason == RefusalReason::kStoreUnavailable || reason == RefusalReason::kStoreHoldOff ||
         reason == RefusalReason::kQuorumNotReached || reason == RefusalReason::kDraining;
}

}  // namespace

v1::Refusal RefusalOf(const core::Refused& refused, const core::LockName& about) {
  const core::LockName& lock = refused.about.empty() ? about : refused.about;
  v1::Refusal refusal = MakeRefusal(refused.reason, MessageOf(refused, Show(lock)), refused.retry_after);
  *refusal.mutable_waited() = ToProto(refused.waited);
  bool is_renewed = false;
  for (const core::HolderView& view : refused.holders) {
    if (IsBlocked(view.owner)) continue;
    v1::Holder& holder = *refusal.add_holders();
    holder = HolderOf(view);
    is_renewed = is_renewed || !holder.detached();
  }
  // It will not be gone then.
  if (is_renewed && refused.reason == RefusalReason::kLockHeld) refusal.clear_retry_after();
  if (const auto block = BlockOf(refused.holders)) *refusal.mutable_block() = *block;
  refusal.set_queue_length(static_cast<int32_t>(refused.queue_length));
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
                     "this broker is overloaded (its mailbox is full, limit mailbox-capacity): nothing was done, retry",
                     kRetryOverload);
}

v1::Refusal StoreRefusal(const absl::Status& status, const core::LockName& about) {
  core::Refused refused{.reason = RefusalReason::kStoreUnavailable, .cause = std::string(status.message())};
  if (absl::IsFailedPrecondition(status)) refused.reason = RefusalReason::kForeignKey;
  if (absl::IsCancelled(status)) refused.reason = RefusalReason::kDraining;
  return RefusalOf(refused, about);
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
    case core::LostReason::kMoved:
      return absl::StrCat("another session adopted the lease of ", lock, " and holds it under the same fencing token");
  }
  return absl::StrCat("the lease of ", lock, " was lost", because);
}

v1::LeaseLost LostOf(const core::Lost& lost) {
  v1::LeaseLost proto;
  *proto.mutable_lease() = RefOf(lost.name, lost.owner, lost.token);
  proto.set_reason(LostReasonOf(lost.reason));
  proto.set_message(LostMessage(lost));
  return proto;
}

}  // namespace distlock::contract
