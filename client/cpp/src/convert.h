// SPDX-License-Identifier: Apache-2.0
//
// Between the wire and the library's own words. Pure functions; nothing but these, the outbox and the table's event
// handlers sees a protobuf message.
#pragma once

#include <grpcpp/support/status.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "distlock/types.h"
#include "distlock/v1/lock_service.pb.h"

namespace distlock::internal {

// What is asked for, converted once and shared by all acquires of an Acquirer. Constant after construction.
struct Spec {
  v1::LockSpec wire;  // without max_wait
  size_t wire_bytes = 0;
  std::optional<Duration> max_wait;  // of the plain waits
  std::function<void(const QueuedInfo&)> on_queued;
  // Set when the broker could not even read it (no UTF-8, larger than a message): it would break the stream for all.
  std::optional<Refusal> problem;
};

// How a lock is taken: `permits` and `limit` are of PERMIT only.
struct Taking {
  v1::LockMode mode = v1::LOCK_MODE_EXCLUSIVE;
  uint32_t permits = 0;
  uint32_t limit = 0;
};
std::shared_ptr<const Spec> MakeSpec(std::string key, LockOptions options, Taking taking = {});

// The PERMIT spec with this number of permits.
std::shared_ptr<const Spec> WithPermits(const std::shared_ptr<const Spec>& spec, uint32_t permits);

// A label the broker can read: cut to its limit, and empty when it is no UTF-8.
std::string CleanLabel(std::string label);

// 0 .. 4e18, whatever a broker says: it can be added to a time.
int64_t ToNs(const google::protobuf::Duration& duration);
Holder ToHolder(const v1::Holder& wire);
Refusal ToRefusal(const v1::Refusal& wire);
QueuedInfo ToQueued(const v1::Queued& wire);
EndCause ToEndCause(v1::LostReason reason);
ReleaseOutcome ToOutcome(v1::ReleaseOutcome outcome);

// Why a stream ended: the reason in its details, else what its code says. kUnreachable for everything a later attempt
// may cure.
Refusal ToRefusal(const grpc::Status& status);

// No later attempt will do better without somebody changing something.
bool IsPermanent(RefusalReason reason);

}  // namespace distlock::internal
