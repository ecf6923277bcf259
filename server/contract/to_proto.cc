// SPDX-License-Identifier: Apache-2.0
#include "contract/to_proto.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "contract/holder_info.h"
#include "contract/ids.h"
#include "contract/lease_id.h"
#include "contract/utf8.h"
#include "distlock/wire/utf8.h"

namespace distlock::contract {
namespace {

core::StoreTime HoldUntil(core::StoreTime since, core::Duration max_hold) {
  if (max_hold <= core::Duration::zero()) return {};
  const core::StoreTime end{since.us + std::chrono::floor<std::chrono::microseconds>(max_hold).count()};
  return std::min(end, core::kMaxStoreTime);
}

template <typename Message>
void SetName(const core::LockName& name, Message* message) {
  auto [ns, key] = name.Decode();
  message->set_namespace_(wire::IsUtf8(ns) ? std::move(ns) : CleanText(ns));
  message->set_key(wire::IsUtf8(key) ? std::move(key) : CleanText(key));
}

void Fill(core::Duration duration, google::protobuf::Duration* out) {
  out->set_seconds(duration / std::chrono::seconds(1));
  out->set_nanos(static_cast<int32_t>((duration % std::chrono::seconds(1)).count()));
}

void FillRef(const core::LockName& name, const core::OwnerId& owner, uint64_t token, v1::LeaseRef* ref) {
  if (name.empty()) return;
  SetName(name, ref);
  ref->set_holder_id(HolderIdOf(owner));
  ref->set_fencing_token(static_cast<int64_t>(token));
}

v1::Waiter WaiterOf(const core::LockView::WaiterView& view) {
  v1::Holder facts = ParseInfo(view.info);
  v1::Waiter waiter;
  waiter.set_waiter_id(HolderIdOf(view.owner));
  waiter.set_owner(std::move(*facts.mutable_owner()));
  waiter.mutable_metadata()->swap(*facts.mutable_metadata());
  waiter.set_mode(facts.mode());
  waiter.set_permits(facts.permits());
  waiter.set_broker_id(view.broker_id);
  if (view.since.us != 0) *waiter.mutable_start_time() = ToProto(view.since);
  return waiter;
}

// Without waiters.
v1::LockInfo LockWith(const core::LockView& view, size_t max_holders) {
  v1::LockInfo lock;
  SetName(view.name, &lock);
  size_t bytes = 0;
  for (const core::HolderView& shown : view.holders) {
    if (static_cast<size_t>(lock.holders_size()) == max_holders) break;
    if (IsBlocked(shown.owner)) continue;
    v1::Holder holder = HolderOf(shown);
    bytes += holder.ByteSizeLong();
    if (bytes > kMaxLockBytes / 2 && lock.holders_size() > 0) break;
    *lock.add_holders() = std::move(holder);
  }
  lock.set_holder_count(static_cast<int32_t>(view.holder_count));
  lock.set_fencing_token(static_cast<int64_t>(view.last_token));
  lock.set_queue_length(static_cast<int32_t>(view.queue_length));
  if (const auto block = BlockOf(view.holders)) *lock.mutable_block() = *block;
  return lock;
}

}  // namespace

google::protobuf::Duration ToProto(core::Duration duration) {
  google::protobuf::Duration proto;
  Fill(duration, &proto);
  return proto;
}

google::protobuf::Timestamp ToProto(core::StoreTime time) {
  google::protobuf::Timestamp proto;
  proto.set_seconds(time.us / 1'000'000);
  proto.set_nanos(static_cast<int32_t>(time.us % 1'000'000) * 1000);
  return proto;
}

// The contract numbers its reasons in the core's order, from 1. A new one: see proto/README.md.
static_assert(v1::REFUSAL_REASON_LOCK_HELD == static_cast<int>(core::RefusalReason::kLockHeld) + 1);
static_assert(v1::RefusalReason_MAX == static_cast<int>(core::RefusalReason::kStoreHoldOff) + 1);
static_assert(v1::RefusalReason_MAX == core::kRefusalReasonCount);
static_assert(v1::LostReason_MAX == static_cast<int>(core::LostReason::kMoved) + 1);
static_assert(v1::LostReason_MAX == core::kLostReasonCount);

v1::RefusalReason ReasonOf(core::RefusalReason reason) {
  return static_cast<v1::RefusalReason>(static_cast<int>(reason) + 1);
}

core::RefusalReason ReasonOf(v1::RefusalReason reason) {
  return static_cast<core::RefusalReason>(static_cast<int>(reason) - 1);
}

v1::LostReason LostReasonOf(core::LostReason reason) {
  return static_cast<v1::LostReason>(static_cast<int>(reason) + 1);
}

v1::LockMode ModeOf(core::Mode mode) {
  switch (mode) {
    case core::Mode::kExclusive:
      return v1::LOCK_MODE_EXCLUSIVE;
    case core::Mode::kShared:
      return v1::LOCK_MODE_SHARED;
    case core::Mode::kPermit:
      return v1::LOCK_MODE_PERMIT;
  }
  return v1::LOCK_MODE_UNSPECIFIED;
}

v1::Holder HolderOf(const core::HolderView& view) {
  v1::Holder holder = ParseInfo(view.info);
  holder.set_holder_id(HolderIdOf(view.owner));
  holder.set_fencing_token(static_cast<int64_t>(view.token));
  *holder.mutable_acquire_time() = ToProto(view.since);
  *holder.mutable_time_left() = ToProto(view.time_left);
  *holder.mutable_ttl() = ToProto(view.ttl);
  if (view.held_for > core::Duration::zero()) *holder.mutable_held_for() = ToProto(view.held_for);
  return holder;
}

std::optional<v1::LockBlock> BlockOf(std::span<const core::HolderView> views) {
  const core::HolderView* longest = nullptr;
  for (const core::HolderView& view : views) {
    if (IsBlocked(view.owner) && (longest == nullptr || view.time_left > longest->time_left)) longest = &view;
  }
  if (longest == nullptr) return std::nullopt;
  v1::LockBlock block;
  const core::Duration ran = std::max(longest->lock_delay - longest->time_left, core::Duration::zero());
  const core::Duration held = std::max(longest->held_for - ran, core::Duration::zero());
  *block.mutable_start_time() =
      ToProto(core::StoreTime{longest->since.us + std::chrono::floor<std::chrono::microseconds>(held).count()});
  *block.mutable_time_left() = ToProto(longest->time_left);
  block.set_owner(ParseInfo(longest->info).owner());
  if (longest->min_hold > core::Duration::zero()) *block.mutable_min_hold() = ToProto(longest->min_hold);
  *block.mutable_acquire_time() = ToProto(longest->since);
  return block;
}

v1::LeaseRef RefOf(const core::LockName& name, const core::OwnerId& owner, uint64_t token) {
  v1::LeaseRef ref;
  FillRef(name, owner, token, &ref);
  return ref;
}

v1::Grant GrantOf(const core::Granted& granted, core::Duration max_hold) {
  v1::Grant grant;
  Fill(granted, max_hold, &grant);
  return grant;
}

void Fill(const core::Granted& granted, core::Duration max_hold, v1::Grant* grant) {
  SetName(granted.name, grant);
  grant->set_mode(ModeOf(granted.mode));
  grant->set_lease_id(EncodeLeaseId({.name = granted.name,
                                     .owner = granted.owner,
                                     .ttl = granted.ttl,
                                     .hold_until = HoldUntil(granted.since, max_hold),
                                     .token = granted.token}));
  grant->set_holder_id(HolderIdOf(granted.owner));
  grant->set_fencing_token(static_cast<int64_t>(granted.token));
  Fill(granted.valid_for, grant->mutable_valid_for());
  grant->set_echo_seq(static_cast<int64_t>(granted.echo_seq));
  if (granted.since_granted) Fill(*granted.since_granted, grant->mutable_since_granted());
  Fill(granted.ttl, grant->mutable_ttl());
  Fill(granted.waited, grant->mutable_waited());
  grant->set_hold_count(static_cast<int32_t>(granted.hold_count));
  grant->set_replicas_acked(static_cast<int32_t>(granted.replicas));
}

void Fill(const core::Released& released, v1::LeaseReleased* out) {
  FillRef(released.name, released.owner, released.token, out->mutable_lease());
  out->set_outcome(OutcomeOf(released.outcome));
}

v1::AcquireQueued QueuedOf(const core::Queued& queued) {
  v1::AcquireQueued proto;
  proto.set_position(static_cast<int32_t>(queued.position));
  for (const core::HolderView& holder : queued.holders) {
    if (!IsBlocked(holder.owner)) *proto.add_holders() = HolderOf(holder);
  }
  if (const auto block = BlockOf(queued.holders)) *proto.mutable_block() = *block;
  return proto;
}

v1::LeaseRenewed RenewedOf(const core::Renewed& renewed) {
  v1::LeaseRenewed proto;
  *proto.mutable_lease() = RefOf(renewed.name, renewed.owner, renewed.token);
  *proto.mutable_since_granted() = ToProto(renewed.since_granted);
  *proto.mutable_valid_for() = ToProto(renewed.valid_for);
  return proto;
}

v1::LeaseAtRisk AtRiskOf(const core::AtRisk& at_risk) {
  v1::LeaseAtRisk proto;
  *proto.mutable_lease() = RefOf(at_risk.name, at_risk.owner, at_risk.token);
  *proto.mutable_since_granted() = ToProto(at_risk.since_granted);
  *proto.mutable_valid_for() = ToProto(at_risk.valid_for);
  proto.set_cause(CleanText(at_risk.cause));
  return proto;
}

v1::ReleaseOutcome OutcomeOf(core::ReleaseOutcome outcome) {
  switch (outcome) {
    case core::ReleaseOutcome::kReleased:
      return v1::RELEASE_OUTCOME_RELEASED;
    case core::ReleaseOutcome::kStillHeld:
      return v1::RELEASE_OUTCOME_STILL_HELD;
    case core::ReleaseOutcome::kAlreadyGone:
      return v1::RELEASE_OUTCOME_ALREADY_GONE;
  }
  return v1::RELEASE_OUTCOME_UNSPECIFIED;
}

v1::LeaseDowngraded DowngradedOf(const core::Downgraded& downgraded) {
  v1::LeaseDowngraded proto;
  *proto.mutable_lease() = RefOf(downgraded.name, downgraded.owner, downgraded.token);
  return proto;
}

v1::LeaseWanted WantedOf(const core::Wanted& wanted) {
  v1::LeaseWanted proto;
  *proto.mutable_lease() = RefOf(wanted.name, wanted.owner, wanted.token);
  return proto;
}

v1::HeartbeatAck AckOf(const core::HeartbeatAck& ack) {
  v1::HeartbeatAck proto;
  proto.set_seq(static_cast<int64_t>(ack.seq));
  *proto.mutable_valid_for() = ToProto(ack.valid_for);
  for (const core::LeaseLimit& limit : ack.limits) {
    v1::LeaseLimit* added = proto.add_limits();
    added->set_acquire_id(static_cast<int64_t>(limit.acquire));
    *added->mutable_valid_for() = ToProto(limit.valid_for);
  }
  return proto;
}

v1::BrokerDraining DrainingOf(const core::Draining& draining) {
  v1::BrokerDraining proto;
  *proto.mutable_time_left() = ToProto(draining.time_left);
  const absl::Time deadline = absl::Now() + absl::FromChrono(draining.time_left);
  *proto.mutable_deadline_time() = ToProto(core::StoreTime{absl::ToUnixMicros(deadline)});
  return proto;
}

v1::LockInfo ListedLockOf(const core::LockView& view) { return LockWith(view, kMaxListedHolders); }

v1::LockInfo WatchedLockOf(const core::LockView& view) {
  v1::LockInfo lock = ListedLockOf(view);
  for (size_t i = 0; i < std::min(view.waiters.size(), kMaxListedHolders); ++i) {
    *lock.add_waiters() = WaiterOf(view.waiters[i]);
  }
  return lock;
}

v1::LockInfo LockOf(const core::LockView& view) {
  v1::LockInfo lock = LockWith(view, view.holders.size());
  size_t bytes = 0;
  for (const core::LockView::WaiterView& waiting : view.waiters) {
    v1::Waiter waiter = WaiterOf(waiting);
    bytes += waiter.ByteSizeLong();
    if (bytes > kMaxLockBytes / 2 && lock.waiters_size() > 0) break;
    *lock.add_waiters() = std::move(waiter);
  }
  return lock;
}

}  // namespace distlock::contract
