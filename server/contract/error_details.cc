// SPDX-License-Identifier: Apache-2.0
#include "contract/error_details.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "contract/refusal.h"
#include "contract/show.h"
#include "contract/to_proto.h"
#include "contract/utf8.h"
#include "distlock/wire/names.h"
#include "distlock/wire/status_details.h"

namespace distlock::contract {
namespace {

using core::RefusalReason;

// By default a client drops a call whose trailers have more than 8 KiB. The error travels in base64, a third longer
// than it is, with the message percent-encoded beside it. With these bounds both together have less than 6.5 KiB.
constexpr size_t kMaxMessageBytes = 768;
constexpr size_t kMaxEncodedMessageBytes = 1024;
constexpr size_t kMaxNameBytes = 640;  // namespace:key; with the default limits at most 577
constexpr size_t kMaxOwnerBytes = 256;
constexpr size_t kMaxDescriptionBytes = 256;
constexpr size_t kMaxViolationsBytes = 1536;  // all violations together

// Fits into the trailers, also when it is percent-encoded.
std::string Message(std::string_view text) {
  size_t encoded = 0;
  size_t fit = 0;
  while (fit < text.size() && encoded <= kMaxEncodedMessageBytes) {
    const bool is_plain = text[fit] >= ' ' && text[fit] <= '~' && text[fit] != '%';
    encoded += is_plain ? 1 : 3;
    ++fit;
  }
  return Cut(text, encoded <= kMaxEncodedMessageBytes ? kMaxMessageBytes : std::min(fit - 1, kMaxMessageBytes));
}

absl::StatusCode CodeOf(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kLockHeld:
    case RefusalReason::kWaitTimeout:
    case RefusalReason::kLeaseLost:
      return absl::StatusCode::kAborted;
    case RefusalReason::kNotHolder:
    case RefusalReason::kLimitMismatch:
    case RefusalReason::kForeignKey:
      return absl::StatusCode::kFailedPrecondition;
    case RefusalReason::kInvalidArgument:
      return absl::StatusCode::kInvalidArgument;
    case RefusalReason::kNotSupported:
      return absl::StatusCode::kUnimplemented;
    case RefusalReason::kQuotaExceeded:
    case RefusalReason::kStoreFull:
      return absl::StatusCode::kResourceExhausted;
    case RefusalReason::kStoreUnavailable:
    case RefusalReason::kStoreHoldOff:
    case RefusalReason::kQuorumNotReached:
    case RefusalReason::kDraining:
      return absl::StatusCode::kUnavailable;
    case RefusalReason::kUnauthenticated:
      return absl::StatusCode::kUnauthenticated;
    case RefusalReason::kPermissionDenied:
      return absl::StatusCode::kPermissionDenied;
    case RefusalReason::kCancelled:
      return absl::StatusCode::kCancelled;
  }
  return absl::StatusCode::kInternal;
}

void AddResource(const v1::Refusal& refusal, const core::LockName& about, wire::RpcStatus* status) {
  if (about.empty()) return;
  const auto [ns, key] = about.Decode();
  wire::ResourceInfo resource;
  resource.set_resource_type("lock");
  resource.set_resource_name(Cut(CleanText(absl::StrCat(ns, ":", key)), kMaxNameBytes));
  if (refusal.holders_size() > 0) {
    resource.set_owner(Cut(refusal.holders(0).owner(), kMaxOwnerBytes));
    resource.set_description(absl::StrCat("held by holder ", refusal.holders(0).holder_id()));
  } else if (refusal.has_block()) {
    resource.set_owner(Cut(refusal.block().owner(), kMaxOwnerBytes));
    const char* const what = refusal.block().has_min_hold() ? "min_hold" : "lock_delay";
    resource.set_description(absl::StrCat("nobody holds it: a ", what, " is running"));
  }
  wire::PackDetail(resource, status->add_details());
}

wire::RpcStatus LostWith(v1::LostReason reason, const std::string& message, const core::LockName& about) {
  wire::RpcStatus status;
  status.set_code(static_cast<int>(absl::StatusCode::kAborted));
  status.set_message(Message(message));
  wire::ErrorInfo info;
  info.set_reason(std::string(wire::NameOf(v1::REFUSAL_REASON_LEASE_LOST)));
  info.set_domain(wire::kErrorDomain);
  (*info.mutable_metadata())["lost_reason"] = std::string(wire::NameOf(reason));
  wire::PackDetail(info, status.add_details());
  AddResource({}, about, &status);
  return status;
}

}  // namespace

wire::RpcStatus ErrorOf(const v1::Refusal& refusal, const core::LockName& about) {
  wire::RpcStatus status;
  status.set_code(static_cast<int>(CodeOf(ReasonOf(refusal.reason()))));
  status.set_message(Message(refusal.message()));
  wire::ErrorInfo info;
  info.set_reason(std::string(wire::NameOf(refusal.reason())));
  info.set_domain(wire::kErrorDomain);
  if (refusal.queue_length() > 0) (*info.mutable_metadata())["queue_length"] = absl::StrCat(refusal.queue_length());
  if (refusal.holders_size() > 0) {
    auto& facts = *info.mutable_metadata();
    facts["holder_id"] = refusal.holders(0).holder_id();
    facts["fencing_token"] = absl::StrCat(refusal.holders(0).fencing_token());
  }
  if (refusal.has_block()) {
    (*info.mutable_metadata())["block_time_left"] =
        google::protobuf::util::TimeUtil::ToString(refusal.block().time_left());
  }
  if (refusal.has_denial()) {
    const v1::AccessDenial& denial = refusal.denial();
    auto& facts = *info.mutable_metadata();
    facts["identity"] = Cut(denial.identity(), kMaxOwnerBytes);
    facts["verb"] = denial.verb();
    facts["namespace"] = denial.namespace_();
    facts["key"] = Cut(denial.key(), kMaxNameBytes);
    facts["rule"] = denial.rule();
  }
  wire::PackDetail(info, status.add_details());
  if (refusal.has_retry_after()) {
    wire::RetryInfo retry;
    *retry.mutable_retry_delay() = refusal.retry_after();
    wire::PackDetail(retry, status.add_details());
  }
  if (refusal.field_problems_size() > 0) {
    wire::BadRequest bad;
    for (const v1::FieldProblem& problem : refusal.field_problems()) {
      wire::BadRequest::FieldViolation violation;
      violation.set_field(problem.field());
      violation.set_description(Cut(problem.description(), kMaxDescriptionBytes));
      if (bad.ByteSizeLong() + violation.ByteSizeLong() > kMaxViolationsBytes) break;
      *bad.add_field_violations() = std::move(violation);
    }
    wire::PackDetail(bad, status.add_details());
  }
  AddResource(refusal, about, &status);
  return status;
}

wire::RpcStatus LostError(const core::Lost& lost) {
  return LostWith(LostReasonOf(lost.reason), LostMessage(lost), lost.name);
}

wire::RpcStatus LapsedError(core::Duration validity) {
  return LostWith(v1::LOST_REASON_EXPIRED,
                  absl::StrCat("no heartbeat came for ", Show(validity),
                               ": the session has lapsed and its leases are given up; send Heartbeat every ",
                               Show(validity / 3), " and open a new session"),
                  {});
}

wire::RpcStatus HolderDiedError() {
  return LostWith(v1::LOST_REASON_EXPIRED,
                  "the process that opened this stream has ended, and its leases are given up; open a new stream on a "
                  "connection of your own",
                  {});
}

}  // namespace distlock::contract
