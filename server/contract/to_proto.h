// SPDX-License-Identifier: Apache-2.0
//
// The core's events and views of locks as messages of the contract. Owner ids become holder ids here: the only secret
// that leaves is the lease_id of a Grant. Pure, except DrainingOf, which reads the wall clock; any thread.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <optional>
#include <span>
#include <string>

#include "core/lock_view.h"
#include "core/messages.h"
#include "distlock/v1/lock.pb.h"
#include "distlock/v1/lock_service.pb.h"

namespace distlock::contract {

google::protobuf::Duration ToProto(core::Duration duration);
google::protobuf::Timestamp ToProto(core::StoreTime time);

// The reasons of the contract are numbered in the order of the core's, from 1.
v1::RefusalReason ReasonOf(core::RefusalReason reason);
core::RefusalReason ReasonOf(v1::RefusalReason reason);
v1::LostReason LostReasonOf(core::LostReason reason);

v1::LockMode ModeOf(core::Mode mode);
// `view` is a holder, not a block.
v1::Holder HolderOf(const core::HolderView& view);
// The block among `views` that lasts longest. Its start is known no better than by the lock_delay of its holder.
std::optional<v1::LockBlock> BlockOf(std::span<const core::HolderView> views);
v1::LeaseRef RefOf(const core::LockName& name, const core::OwnerId& owner, uint64_t token);

// `max_hold` is kept in the lease id of a detached lease. Zero for a lease of a stream, which the broker ends.
v1::Grant GrantOf(const core::Granted& granted, core::Duration max_hold);
// The same into an empty message, for the most frequent events: `out` may be in an arena.
void Fill(const core::Granted& granted, core::Duration max_hold, v1::Grant* grant);
void Fill(const core::Released& released, v1::LeaseReleased* out);
v1::AcquireQueued QueuedOf(const core::Queued& queued);
v1::LeaseRenewed RenewedOf(const core::Renewed& renewed);
v1::LeaseAtRisk AtRiskOf(const core::AtRisk& at_risk);
v1::LeaseDowngraded DowngradedOf(const core::Downgraded& downgraded);
v1::LeaseWanted WantedOf(const core::Wanted& wanted);
v1::HeartbeatAck AckOf(const core::HeartbeatAck& ack);
v1::BrokerDraining DrainingOf(const core::Draining& draining);
v1::ReleaseOutcome OutcomeOf(core::ReleaseOutcome outcome);

// gRPC clients take messages of up to 4 MiB by default.
inline constexpr size_t kMaxLockBytes = 2 << 20;
inline constexpr size_t kMaxPageBytes = 2 << 20;
inline constexpr size_t kMaxListedHolders = 16;

// With as many of the first holders, and of the first waiters, as fit into half of kMaxLockBytes each, and at least
// one.
v1::LockInfo LockOf(const core::LockView& view);
// For a page of locks: with at most kMaxListedHolders holders.
v1::LockInfo ListedLockOf(const core::LockView& view);
// For WatchLocks: with at most kMaxListedHolders holders and as many waiters.
v1::LockInfo WatchedLockOf(const core::LockView& view);

}  // namespace distlock::contract
