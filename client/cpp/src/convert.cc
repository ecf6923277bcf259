// SPDX-License-Identifier: Apache-2.0
#include "convert.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace distlock::internal {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// More than a century: longer than any broker can mean, and in nanoseconds it can still be added to a time.
constexpr int64_t kMaxSeconds = 4'000'000'000;
constexpr int64_t kMaxNanos = kSecond - 1;
constexpr size_t kSpecBytes = 16 << 10;  // far more than the broker's own limits add up to
constexpr size_t kLabelBytes = 256;

// Length of the UTF-8 sequence at the front of `text`, 0 when there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F;
  const bool too_big = first == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_big ? 0 : length;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void SetDuration(Duration from, google::protobuf::Duration* to) {
  to->set_seconds(from.count() / kSecond);
  to->set_nanos(static_cast<int32_t>(from.count() % kSecond));
}

std::chrono::system_clock::time_point ToTime(const google::protobuf::Timestamp& wire) {
  const auto since = std::chrono::seconds(std::clamp<int64_t>(wire.seconds(), 0, kMaxSeconds)) +
                     std::chrono::nanoseconds(std::clamp<int64_t>(wire.nanos(), 0, kMaxNanos));
  return std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(since));
}

std::optional<Refusal> FindProblem(const Spec& spec) {
  Refusal refusal{.reason = RefusalReason::kInvalidArgument};
  const auto check = [&](const std::string& text, const char* field) {
    if (!IsUtf8(text)) refusal.field_problems.push_back({field, "is not valid UTF-8; encode binary names first"});
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

// Of a status that is not the broker's own: gRPC made it, or a proxy. Only who is let in may be a proxy's to decide for
// good; an UNIMPLEMENTED, say, may be its HTTP 404 while the broker behind it is being replaced.
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

// The facts of an ErrorInfo and a ResourceInfo about who holds the lock.
void SetHolder(const google::protobuf::Map<std::string, std::string>& facts, const std::string& owner,
               Refusal& refusal) {
  const auto fact = [&](const char* name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string() : found->second;
  };
  refusal.queue_length = static_cast<uint32_t>(std::strtoul(fact("queue_length").c_str(), nullptr, 10));
  Holder holder{.holder_id = fact("holder_id"), .owner = owner};
  holder.fencing_token = std::strtoull(fact("fencing_token").c_str(), nullptr, 10);
  holder.blocked = fact("blocked") == "true";
  if (!holder.holder_id.empty() || !holder.owner.empty() || holder.blocked)
    refusal.holders.push_back(std::move(holder));
}

}  // namespace

int64_t ToNs(const google::protobuf::Duration& duration) {
  if (duration.seconds() < 0 || duration.nanos() < 0) return 0;
  return std::min(duration.seconds(), kMaxSeconds) * kSecond + std::min<int64_t>(duration.nanos(), kMaxNanos);
}

std::shared_ptr<const Spec> MakeSpec(std::string key, LockOptions options, Taking taking) {
  auto spec = std::make_shared<Spec>();
  v1::LockSpec& wire = spec->wire;
  wire.set_namespace_(std::move(options.lock_namespace));
  wire.set_key(std::move(key));
  wire.set_mode(taking.mode);
  wire.set_permits(taking.permits);
  wire.set_limit(taking.limit);
  wire.set_policy(static_cast<v1::QueuePolicy>(options.policy));
  if (options.ttl) SetDuration(*options.ttl, wire.mutable_ttl());
  wire.set_owner(std::move(options.owner));
  wire.mutable_metadata()->insert(options.metadata.begin(), options.metadata.end());
  if (options.max_hold != Duration::zero()) SetDuration(options.max_hold, wire.mutable_max_hold());
  if (options.lock_delay != Duration::zero()) SetDuration(options.lock_delay, wire.mutable_lock_delay());
  wire.set_on_disconnect(static_cast<v1::OnDisconnect>(options.on_disconnect));
  wire.set_reentrant(options.reentrant);
  spec->wire_bytes = wire.ByteSizeLong();
  spec->max_wait = options.max_wait;
  spec->on_queued = std::move(options.on_queued);
  spec->problem = FindProblem(*spec);
  return spec;
}

std::shared_ptr<const Spec> WithPermits(const std::shared_ptr<const Spec>& spec, uint32_t permits) {
  if (permits == spec->wire.permits()) return spec;
  auto other = std::make_shared<Spec>(*spec);
  other->wire.set_permits(permits);
  other->wire_bytes = other->wire.ByteSizeLong();
  if (permits == 0 && !other->problem) {  // on the wire it would mean 1
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
  // Of an EXCLUSIVE holder an older broker says nothing.
  if (wire.mode() != v1::LOCK_MODE_UNSPECIFIED) holder.mode = static_cast<LockMode>(wire.mode());
  holder.permits = wire.permits();
  holder.fencing_token = wire.fencing_token();
  holder.since = ToTime(wire.since());
  holder.time_left = Duration(ToNs(wire.time_left()));
  holder.ttl = Duration(ToNs(wire.ttl()));
  holder.broker_id = wire.broker_id();
  holder.blocked = wire.blocked();
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
  if (wire.has_retry_after()) refusal.retry_after = Duration(ToNs(wire.retry_after()));
  refusal.waited = Duration(ToNs(wire.waited()));
  for (const v1::Holder& holder : wire.holders()) refusal.holders.push_back(ToHolder(holder));
  refusal.queue_length = wire.queue_length();
  for (const v1::FieldProblem& problem : wire.field_problems()) {
    refusal.field_problems.push_back({problem.field(), problem.description()});
  }
  return refusal;
}

QueuedInfo ToQueued(const v1::Queued& wire) {
  QueuedInfo queued{.position = wire.position()};
  for (const v1::Holder& holder : wire.holders()) queued.holders.push_back(ToHolder(holder));
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
    default:
      return EndCause::kExpired;
  }
}

ReleaseOutcome ToOutcome(v1::ReleaseOutcome outcome) {
  if (outcome == v1::RELEASE_OUTCOME_STILL_HELD) return ReleaseOutcome::kStillHeld;
  return outcome == v1::RELEASE_OUTCOME_ALREADY_GONE ? ReleaseOutcome::kAlreadyGone : ReleaseOutcome::kReleased;
}

Refusal ToRefusal(const grpc::Status& status) {
  Refusal refusal{.reason = ReasonOfCode(status.error_code()), .message = status.error_message()};
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return refusal;
  google::rpc::ErrorInfo info;
  google::rpc::RetryInfo retry;
  google::rpc::BadRequest bad;
  google::rpc::ResourceInfo resource;
  for (const google::protobuf::Any& any : details.details()) {
    if (any.UnpackTo(&info) || any.UnpackTo(&resource)) continue;
    if (any.UnpackTo(&retry)) refusal.retry_after = Duration(ToNs(retry.retry_delay()));
    if (!any.UnpackTo(&bad)) continue;
    for (const auto& violation : bad.field_violations()) {
      refusal.field_problems.push_back({violation.field(), violation.description()});
    }
  }
  v1::RefusalReason reason;
  if (info.domain() != "distlock" || !v1::RefusalReason_Parse("REFUSAL_REASON_" + info.reason(), &reason))
    return refusal;
  refusal.reason = static_cast<RefusalReason>(reason);
  SetHolder(info.metadata(), resource.owner(), refusal);
  return refusal;
}

bool IsPermanent(RefusalReason reason) {
  return reason == RefusalReason::kUnauthenticated || reason == RefusalReason::kPermissionDenied ||
         reason == RefusalReason::kInvalidArgument || reason == RefusalReason::kNotSupported;
}

}  // namespace distlock::internal
