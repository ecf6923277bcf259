// SPDX-License-Identifier: Apache-2.0
//
// The core's events and the store's views as messages of the contract. Owner ids become holder ids here; no secret but
// the lease_id of a Grant leaves. Pure but for DrainingOf, which reads the wall clock for people; any thread.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

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
v1::Holder HolderOf(const core::HolderView& view);
v1::LeaseRef RefOf(const core::LockName& name, const core::OwnerId& owner, uint64_t token);

// `max_hold` of a detached lease ends in the lease id; zero for leases of a stream, which the broker ends.
v1::Grant GrantOf(const core::Granted& granted, core::Duration max_hold);
// The same into an empty message: what is most frequent is made in its place, which may be an arena's.
void Fill(const core::Granted& granted, core::Duration max_hold, v1::Grant* grant);
void Fill(const core::Released& released, v1::Released* out);
v1::Queued QueuedOf(const core::Queued& queued);
v1::Renewed RenewedOf(const core::Renewed& renewed);
v1::AtRisk AtRiskOf(const core::AtRisk& at_risk);
v1::Converted ConvertedOf(const core::Converted& converted);
v1::HeartbeatAck AckOf(const core::HeartbeatAck& ack);
v1::Draining DrainingOf(const core::Draining& draining);
v1::ReleaseOutcome OutcomeOf(core::ReleaseOutcome outcome);

v1::Lock LockOf(const core::LockView& view);

}  // namespace distlock::contract
