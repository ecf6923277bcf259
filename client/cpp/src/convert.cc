// SPDX-License-Identifier: Apache-2.0
#include "convert.h"

#include <absl/time/time.h>

#include <algorithm>
#include <utility>

#include "default_owner.h"
#include "distlock/wire/names.h"
#include "distlock/wire/status_details.h"
#include "distlock/wire/times.h"
#include "distlock/wire/utf8.h"

namespace distlock::internal {
namespace {

using wire::FromProto;
using wire::IsUtf8;
using wire::ToProto;

constexpr size_t kSpecBytes = 16 << 10;  // far more than the broker's own limits add up to
constexpr size_t kLabelBytes = 256;

std::optional<Refusal> FindProblem(const Spec& spec) {
  Refusal refusal{.reason = RefusalReason::kInvalidArgument};
  const auto check = [&](const std::string& text, const char* field) {
    if (!IsUtf8(text)) refusal.field_problems.push_back({field, kNotUtf8});
  };
  check(spec.wire.namespace_(), "lock.namespace");
  check(spec.wire.key(), "lock.key");
  check(spec.wire.owner(), "lock.owner");
  for (const auto& [name, value] : spec.wire.metadata()) {
    check(name, "lock.metadata");
    check(value, "lock.metadata");
  }
  if (spec.wire_bytes > kSpecBytes) {
    refusal.field_problems.push_back({"lock", "takes " + std::to_string(spec.wire_bytes) +
                                                  " bytes; shorten the key (up to 512 bytes), the owner "
                                                  "(up to 256) or the metadata (up to 1024)"});
  }
  if (refusal.field_problems.empty()) return std::nullopt;
  const FieldProblem& first = refusal.field_problems.front();
  refusal.message = first.field + " " + first.description;
  return refusal;
}

// Reads a text such as "1.5s"; 0 when it cannot be read.
Duration ToDuration(const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) return {};
  return std::clamp<Duration>(absl::ToChronoNanoseconds(duration), {}, std::chrono::seconds(wire::kMostSeconds));
}

LockBlock ToBlock(const v1::LockBlock& wire) {
  return {.start_time = FromProto(wire.start_time()),
          .time_left = FromProto(wire.time_left()),
          .owner = wire.owner(),
          .min_hold = FromProto(wire.min_hold()),
          .acquire_time = FromProto(wire.acquire_time())};
}

// The reason of a status that has no distlock details: gRPC made it, or a proxy. A proxy may decide for good who is let
// in. Every other code is temporary: an UNIMPLEMENTED may be the proxy's HTTP 404 while the broker behind it is being
// replaced.
RefusalReason ReasonOfCode(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAUTHENTICATED:
      return RefusalReason::kUnauthenticated;
    case grpc::StatusCode::PERMISSION_DENIED:
      return RefusalReason::kPermissionDenied;
    default:
      return RefusalReason::kUnreachable;
  }
}

}  // namespace

int64_t ToNs(const google::protobuf::Duration& duration) { return FromProto(duration).count(); }

std::shared_ptr<const Spec> MakeSpec(std::string key, LockOptions options, RequestedMode requested) {
  auto spec = std::make_shared<Spec>();
  v1::LockSpec& wire = spec->wire;
  wire.set_namespace_(std::move(options.lock_namespace));
  wire.set_key(std::move(key));
  wire.set_mode(requested.mode);
  wire.set_permits(requested.permits);
  wire.set_limit(requested.limit);
  wire.set_policy(static_cast<v1::QueuePolicy>(options.policy));
  if (options.ttl) *wire.mutable_ttl() = ToProto(*options.ttl);
  // Reentrant locks of one owner are taken again, so that the program must say who that is.
  wire.set_owner(options.owner.empty() && !options.reentrant ? DefaultOwner() : std::move(options.owner));
  wire.mutable_metadata()->insert(options.metadata.begin(), options.metadata.end());
  if (options.max_hold != Duration::zero()) *wire.mutable_max_hold() = ToProto(options.max_hold);
  if (options.lock_delay != Duration::zero()) *wire.mutable_lock_delay() = ToProto(options.lock_delay);
  if (options.min_hold != Duration::zero()) *wire.mutable_min_hold() = ToProto(options.min_hold);
  wire.set_on_disconnect(static_cast<v1::OnDisconnect>(options.on_disconnect));
  wire.set_reentrant(options.reentrant);
  wire.set_resume(options.resume);
  spec->wire_bytes = wire.ByteSizeLong();
  spec->max_wait = options.max_wait;
  spec->on_queued = std::move(options.on_queued);
  spec->problem = FindProblem(*spec);
  return spec;
}

std::shared_ptr<const Spec> WithMetadata(const Spec& spec, const std::string& name, std::string value) {
  auto other = std::make_shared<Spec>(spec);
  (*other->wire.mutable_metadata())[name] = std::move(value);
  other->wire_bytes = other->wire.ByteSizeLong();
  other->problem = FindProblem(*other);
  return other;
}

std::shared_ptr<const Spec> WithPermits(const std::shared_ptr<const Spec>& spec, int32_t permits) {
  if (permits == spec->wire.permits()) return spec;
  auto other = std::make_shared<Spec>(*spec);
  other->wire.set_permits(permits);
  other->wire_bytes = other->wire.ByteSizeLong();
  if (permits == 0 && !other->problem) {  // the wire's 0 means 1
    other->problem = Refusal{.reason = RefusalReason::kInvalidArgument, .message = "permits is 0; ask for 1 .. limit"};
    other->problem->field_problems.push_back({"lock.permits", "is 0; ask for 1 .. limit"});
  }
  return other;
}

Holder ToHolder(const v1::Holder& wire) {
  Holder holder;
  holder.holder_id = wire.holder_id();
  holder.owner = wire.owner();
  holder.metadata.insert(wire.metadata().begin(), wire.metadata().end());
  // An unset mode means EXCLUSIVE.
  if (wire.mode() != v1::LOCK_MODE_UNSPECIFIED) holder.mode = static_cast<LockMode>(wire.mode());
  holder.permits = wire.permits();
  holder.fencing_token = wire.fencing_token();
  holder.acquire_time = FromProto(wire.acquire_time());
  holder.time_left = FromProto(wire.time_left());
  holder.ttl = FromProto(wire.ttl());
  holder.broker_id = wire.broker_id();
  holder.limit = wire.limit();
  holder.held_for = FromProto(wire.held_for());
  holder.detached = wire.detached();
  return holder;
}

std::string CleanLabel(std::string label) {
  if (!IsUtf8(label)) return "";
  while (label.size() > kLabelBytes) {
    while ((static_cast<unsigned char>(label.back()) & 0xC0) == 0x80) label.pop_back();
    label.pop_back();
  }
  return label;
}

Refusal ToRefusal(const v1::Refusal& wire) {
  Refusal refusal;
  refusal.reason = static_cast<RefusalReason>(wire.reason());
  refusal.message = wire.message();
  if (wire.has_retry_after()) refusal.retry_after = FromProto(wire.retry_after());
  refusal.waited = FromProto(wire.waited());
  for (const v1::Holder& holder : wire.holders()) refusal.holders.push_back(ToHolder(holder));
  refusal.queue_length = wire.queue_length();
  for (const v1::FieldProblem& problem : wire.field_problems()) {
    refusal.field_problems.push_back({problem.field(), problem.description()});
  }
  if (wire.has_block()) refusal.block = ToBlock(wire.block());
  return refusal;
}

QueuedInfo ToQueued(const v1::AcquireQueued& wire) {
  QueuedInfo queued{.position = wire.position()};
  for (const v1::Holder& holder : wire.holders()) queued.holders.push_back(ToHolder(holder));
  if (wire.has_block()) queued.block = ToBlock(wire.block());
  return queued;
}

EndCause ToEndCause(v1::LostReason reason) {
  switch (reason) {
    case v1::LOST_REASON_TAKEN:
      return EndCause::kTaken;
    case v1::LOST_REASON_FORCED:
      return EndCause::kForced;
    case v1::LOST_REASON_MAX_HOLD:
      return EndCause::kMaxHold;
    case v1::LOST_REASON_DRAINED:
      return EndCause::kDrained;
    case v1::LOST_REASON_MOVED:
      return EndCause::kTaken;
    default:
      return EndCause::kExpired;
  }
}

ReleaseOutcome ToOutcome(v1::ReleaseOutcome outcome) {
  switch (outcome) {
    case v1::RELEASE_OUTCOME_RELEASED:
      return ReleaseOutcome::kReleased;
    case v1::RELEASE_OUTCOME_STILL_HELD:
      return ReleaseOutcome::kStillHeld;
    case v1::RELEASE_OUTCOME_ALREADY_GONE:
      return ReleaseOutcome::kAlreadyGone;
    default:
      return ReleaseOutcome::kUnknown;  // of a newer broker
  }
}

Refusal ToRefusal(const grpc::Status& status) {
  Refusal refusal{.reason = ReasonOfCode(status.error_code()), .message = status.error_message()};
  const wire::StatusDetails details = wire::ReadStatusDetails(status.error_details());
  refusal.retry_after = details.retry_delay;
  const std::optional<v1::RefusalReason> reason = wire::RefusalReasonOf(details.reason);
  if (!reason) return refusal;
  refusal.reason = static_cast<RefusalReason>(*reason);
  refusal.queue_length = details.queue_length;
  for (const auto& [field, description] : details.field_violations) {
    refusal.field_problems.push_back({field, description});
  }
  if (!details.holder_id.empty() || !details.owner.empty()) {
    Holder holder{.holder_id = details.holder_id, .owner = details.owner};
    holder.fencing_token = details.fencing_token;
    refusal.holders.push_back(std::move(holder));
  }
  if (!details.block_time_left.empty()) refusal.block = LockBlock{.time_left = ToDuration(details.block_time_left)};
  return refusal;
}

bool IsPermanent(RefusalReason reason) {
  return reason == RefusalReason::kUnauthenticated || reason == RefusalReason::kPermissionDenied ||
         reason == RefusalReason::kInvalidArgument || reason == RefusalReason::kNotSupported ||
         reason == RefusalReason::kForeignKey;
}

}  // namespace distlock::internal
