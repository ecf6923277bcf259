// SPDX-License-Identifier: Apache-2.0
//
// Converts between the wire's messages and the library's values. Pure functions. Only these, the command queue and the
// lock table's event handlers see a protobuf message.
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

// A request for one lock, converted once and shared by all acquires of an Acquirer. Constant after construction.
struct Spec {
  v1::LockSpec wire;  // without max_wait
  size_t wire_bytes = 0;
  std::optional<Duration> max_wait;  // for Lock() and its like
  std::function<void(const QueuedInfo&)> on_queued;
  // Set when the broker could not even read the request (not UTF-8, larger than a message), which would end the stream
  // and all its locks.
  std::optional<Refusal> problem;
};

// How a lock is taken: `permits` and `limit` are of PERMIT only.
struct RequestedMode {
  v1::LockMode mode = v1::LOCK_MODE_EXCLUSIVE;
  int32_t permits = 0;
  int32_t limit = 0;
};
std::shared_ptr<const Spec> MakeSpec(std::string key, LockOptions options, RequestedMode requested = {});

// The PERMIT spec with this number of permits.
std::shared_ptr<const Spec> WithPermits(const std::shared_ptr<const Spec>& spec, int32_t permits);

// The spec with this entry among its metadata.
std::shared_ptr<const Spec> WithMetadata(const Spec& spec, const std::string& name, std::string value);

// The fault of a text that is no UTF-8: a FieldProblem's description.
inline constexpr char kNotUtf8[] = "is not UTF-8; encode binary names first";

// The label as the broker accepts it: cut to 256 bytes, and empty when it is not UTF-8.
std::string CleanLabel(std::string label);

// Clamped to 0 .. 4e18 ns, so that it can be added to a time without overflow.
int64_t ToNs(const google::protobuf::Duration& duration);
Holder ToHolder(const v1::Holder& wire);
Refusal ToRefusal(const v1::Refusal& wire);
QueuedInfo ToQueued(const v1::AcquireQueued& wire);
EndCause ToEndCause(v1::LostReason reason);
ReleaseOutcome ToOutcome(v1::ReleaseOutcome outcome);

// Why a stream ended: the reason in the status details, else by the status code. kUnreachable when another attempt may
// succeed.
Refusal ToRefusal(const grpc::Status& status);

// Repeating the attempt is useless until somebody changes the request or the broker's settings.
bool IsPermanent(RefusalReason reason);

}  // namespace distlock::internal
