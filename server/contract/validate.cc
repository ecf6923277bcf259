// SPDX-License-Identifier: Apache-2.0
#include "contract/validate.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "contract/from_proto.h"
#include "contract/show.h"
#include "distlock/wire/utf8.h"

namespace distlock::contract {
namespace {

constexpr std::string_view kDefaultNamespace = "default";

// Bounds of google.protobuf.Duration itself.
bool IsWellFormed(const google::protobuf::Duration& value) {
  constexpr int64_t kMaxSeconds = 315'576'000'000;
  constexpr int32_t kMaxNanos = 999'999'999;
  if (value.seconds() > kMaxSeconds || value.seconds() < -kMaxSeconds) return false;
  if (value.nanos() > kMaxNanos || value.nanos() < -kMaxNanos) return false;
  return value.seconds() == 0 || value.nanos() == 0 || (value.seconds() < 0) == (value.nanos() < 0);
}

}  // namespace

std::string FieldPath::Text() const {
  std::string text(of);
  if (!of.empty()) text += '.';
  return text.append(field);
}

void Validator::Bad(FieldPath field, std::string description) {
  v1::FieldProblem* problem = problems_.Add();
  problem->set_field(field.Text());
  problem->set_description(std::move(description));
}

void Validator::Text(std::string_view value, size_t max_bytes, FieldPath field) {
  if (value.size() > max_bytes) {
    Bad(field, absl::StrCat("has ", value.size(), " bytes; at most ", max_bytes, " are allowed"));
  }
  if (!wire::IsUtf8(value)) Bad(field, "is not UTF-8");
}

core::LockName Validator::Name(std::string_view ns, std::string_view key, std::string_view path) {
  if (ns.empty()) ns = kDefaultNamespace;
  Text(ns, limits_.max_namespace_bytes, FieldPath(path, "namespace"));
  if (ns == kAllNamespaces) Bad(FieldPath(path, "namespace"), "is \"-\", which stands for all namespaces; name one");
  Text(key, limits_.max_key_bytes, FieldPath(path, "key"));
  if (key.empty()) {
    Bad(FieldPath(path, "key"), absl::StrCat("is empty; give 1..", limits_.max_key_bytes, " bytes of UTF-8"));
  }
  return core::LockName::Encode(ns, key);
}

bool LockSearch::Covers(const core::LockName& name) const {
  return escaped_namespace.empty() || name.escaped().starts_with(absl::StrCat(escaped_namespace, "/", escaped_prefix));
}

LockSearch Validator::Search(std::string_view ns, std::string_view key_prefix) {
  Text(ns, limits_.max_namespace_bytes, "namespace");
  Text(key_prefix, limits_.max_key_bytes, "key_prefix");
  if (ns == kAllNamespaces) {
    if (!key_prefix.empty()) Bad("key_prefix", "is for one namespace; leave it out, or name the namespace");
    return {};
  }
  return {core::EscapeNamespace(ns.empty() ? kDefaultNamespace : ns), core::EscapeKey(key_prefix)};
}

void Validator::RequestId(std::string_view id, FieldPath field) {
  if (id.empty() || (id.size() >= kMinRequestIdBytes && id.size() <= kMaxRequestIdBytes)) return;
  Bad(field, absl::StrCat("has ", id.size(), " bytes; send a random UUID of ", kMinRequestIdBytes, "..",
                          kMaxRequestIdBytes, ", or none"));
}

LeaseId Validator::Lease(std::string_view text, FieldPath field) {
  if (auto lease = DecodeLeaseId(text)) {
    // The id is not signed, and the limits may have been wider when it was made.
    lease->ttl = std::clamp(lease->ttl, limits_.min_ttl, limits_.LongestTtl());
    return *std::move(lease);
  }
  Bad(field, text.empty() ? "is empty; pass the lease_id of the Grant"
                          : "is not a lease id of this service; pass the lease_id of the Grant unchanged");
  return {};
}

void Validator::AcquireId(int64_t id, FieldPath field) {
  if (id < 0) Bad(field, absl::StrCat("is ", id, "; ids of commands start at 1"));
}

uint32_t Validator::Page(int32_t size, FieldPath field) {
  return size == 0 ? kDefaultPage : Count(size, kMaxPage, field);
}

uint32_t Validator::Count(int32_t value, uint32_t most, FieldPath field) {
  if (value >= 0 && static_cast<uint32_t>(value) <= most) return static_cast<uint32_t>(value);
  Bad(field, absl::StrCat("is ", value, "; 0..", most, " are allowed"));
  return 0;
}

core::Duration Validator::Time(const google::protobuf::Duration& value, core::Duration min, core::Duration max,
                               FieldPath field) {
  if (!IsWellFormed(value)) {
    Bad(field, absl::StrCat("is not a valid Duration: seconds ", value.seconds(), ", nanos ", value.nanos(),
                            "; nanos must be below 10^9 and of the sign of seconds"));
    return min;
  }
  // Compares seconds first: a huge value in nanoseconds would overflow.
  const bool fits = std::chrono::seconds(std::abs(value.seconds())) <=
                    std::chrono::duration_cast<std::chrono::seconds>(kMaxHoldBound);
  const auto time =
      fits ? std::chrono::seconds(value.seconds()) + std::chrono::nanoseconds(value.nanos()) : core::Duration::zero();
  if (fits && time >= min && time <= max) return time;
  const std::string shown = fits ? Show(time) : absl::StrCat(value.seconds(), "s");
  Bad(field, absl::StrCat("is ", shown, "; allowed are ", Show(min), " .. ", Show(max)));
  return min;
}

core::Want Validator::ModeAndPolicy(const v1::LockSpec& spec, std::string_view path) {
  core::Want want;
  if (!v1::LockMode_IsValid(spec.mode())) {
    Bad(FieldPath(path, "mode"),
        absl::StrCat("is ", static_cast<int>(spec.mode()), ", which this version does not know"));
  } else if (spec.mode() == v1::LOCK_MODE_PERMIT) {
    if (spec.permits() < 0) Bad(FieldPath(path, "permits"), absl::StrCat("is ", spec.permits(), "; 1 is the least"));
    if (spec.limit() < 1 || spec.limit() < spec.permits()) {
      Bad(FieldPath(path, "limit"),
          absl::StrCat("is ", spec.limit(), "; it must be at least 1 and at least permits (", spec.permits(), ")"));
    }
    want.permits = static_cast<uint32_t>(std::max(spec.permits(), 1));
    want.limit = static_cast<uint32_t>(std::max(spec.limit(), 1));
  } else {
    if (spec.permits() != 0) Bad(FieldPath(path, "permits"), "is for mode PERMIT only");
    if (spec.limit() != 0) Bad(FieldPath(path, "limit"), "is for mode PERMIT only");
  }
  if (!v1::QueuePolicy_IsValid(spec.policy())) {
    Bad(FieldPath(path, "policy"),
        absl::StrCat("is ", static_cast<int>(spec.policy()), ", which this version does not know"));
  }
  want.mode = FromProto(spec.mode());
  want.policy = FromProto(spec.policy());
  return want;
}

core::Acquire Validator::Spec(const v1::LockSpec& spec, std::string_view path, bool detached) {
  using std::chrono::milliseconds;
  core::Acquire acquire{.detached = detached};
  acquire.name = Name(spec.namespace_(), spec.key(), path);
  acquire.want = ModeAndPolicy(spec, path);
  const bool has_ttl = spec.has_ttl() && (spec.ttl().seconds() != 0 || spec.ttl().nanos() != 0);
  acquire.ttl =
      has_ttl ? Time(spec.ttl(), limits_.min_ttl, limits_.LongestTtl(), FieldPath(path, "ttl")) : limits_.UsualTtl();
  // The store counts in milliseconds. Rounding must not make a lease longer than the store keeps it.
  acquire.ttl = std::chrono::floor<milliseconds>(acquire.ttl);
  if (spec.has_max_wait()) {
    acquire.max_wait = Time(spec.max_wait(), {}, limits_.max_wait, FieldPath(path, "max_wait"));
  }
  acquire.max_hold = Time(spec.max_hold(), {}, kMaxHoldBound, FieldPath(path, "max_hold"));
  // max_hold caps the ttl of a detached lease, so it must be at least the shortest ttl.
  if (detached && acquire.max_hold > core::Duration::zero() && acquire.max_hold < limits_.min_ttl) {
    Bad(FieldPath(path, "max_hold"),
        absl::StrCat("is ", Show(acquire.max_hold), "; of a detached lease allowed are 0, or at least ",
                     Show(limits_.min_ttl)));
  }
  acquire.lock_delay = std::chrono::ceil<milliseconds>(
      Time(spec.lock_delay(), {}, limits_.max_lock_delay, FieldPath(path, "lock_delay")));
  acquire.min_hold =
      std::chrono::ceil<milliseconds>(Time(spec.min_hold(), {}, limits_.max_min_hold, FieldPath(path, "min_hold")));
  if (acquire.min_hold > core::Duration::zero() && acquire.want.mode != core::Mode::kExclusive) {
    Bad(FieldPath(path, "min_hold"), "is for mode EXCLUSIVE only");
  }

  Text(spec.owner(), limits_.max_owner_bytes, FieldPath(path, "owner"));
  if (spec.reentrant() && spec.owner().empty()) {
    Bad(FieldPath(path, "owner"), "is empty; whoever takes a lock again is known by the owner it gives");
  }
  if (spec.reentrant() && detached) {
    Bad(FieldPath(path, "reentrant"), "is for Session only: a detached lease does not know who asks again");
  }
  if (spec.reentrant() && !detached) acquire.reentry = spec.owner();
  size_t metadata_bytes = 0;
  bool metadata_utf8 = true;
  for (const auto& [key, value] : spec.metadata()) {
    metadata_bytes += key.size() + value.size();
    metadata_utf8 = metadata_utf8 && wire::IsUtf8(key) && wire::IsUtf8(value);
  }
  if (metadata_bytes > limits_.max_metadata_bytes) {
    Bad(FieldPath(path, "metadata"), absl::StrCat("has ", metadata_bytes, " bytes of keys and values; at most ",
                                                  limits_.max_metadata_bytes, " are allowed"));
  }
  if (!metadata_utf8) Bad(FieldPath(path, "metadata"), "is not UTF-8");

  if (!v1::OnDisconnect_IsValid(spec.on_disconnect())) {
    Bad(FieldPath(path, "on_disconnect"),
        absl::StrCat("is ", static_cast<int>(spec.on_disconnect()), ", which this version does not know"));
  } else if (detached && FromProto(spec.on_disconnect()) != core::OnDisconnect::kSafe) {
    Bad(FieldPath(path, "on_disconnect"), "is for Hold and Session only: a detached lease has no stream to lose");
  }
  acquire.on_disconnect = FromProto(spec.on_disconnect());
  if (spec.resume() && detached) {
    Bad(FieldPath(path, "resume"), "is for Hold and Session only: a detached lease has no stream to lose");
  }
  acquire.resume = spec.resume();
  if (spec.tell_wanted() && detached) {
    Bad(FieldPath(path, "tell_wanted"), "is for Hold and Session only: nobody tells the holder of a detached lease");
  }
  if (spec.tell_wanted() && acquire.min_hold > core::Duration::zero()) {
    Bad(FieldPath(path, "tell_wanted"), "is not for a lock with min_hold, which stays blocked when it is released");
  }
  acquire.tell_wanted = spec.tell_wanted();
  return acquire;
}

std::vector<core::Acquire> Validator::Locks(const google::protobuf::RepeatedPtrField<v1::LockSpec>& specs,
                                            std::string_view path, bool detached) {
  if (specs.empty() || specs.size() > static_cast<int>(core::kMaxTogether)) {
    Bad(path, absl::StrCat("has ", specs.size(), " locks; 1..", core::kMaxTogether, " are allowed"));
    return {};
  }
  std::vector<core::Acquire> parts;
  std::set<core::LockName> names;
  for (int i = 0; i < specs.size(); ++i) {
    const std::string field = absl::StrCat(std::string(path), "[", i, "]");
    const core::Acquire& part = parts.emplace_back(Spec(specs[i], field, detached));
    if (specs.size() == 1) break;
    if (!names.insert(part.name).second) {
      Bad(FieldPath(field, "key"), absl::StrCat("names ", Show(part.name), " a second time"));
    }
    if (part.max_wait != parts.front().max_wait) {
      Bad(FieldPath(field, "max_wait"),
          absl::StrCat("is not that of ", std::string(path), "[0]; it counts for all locks together"));
    }
    if (specs[i].reentrant()) Bad(FieldPath(field, "reentrant"), "is for one lock only");
    if (part.min_hold > core::Duration::zero()) Bad(FieldPath(field, "min_hold"), "is for one lock only");
  }
  return parts;
}

v1::Refusal Validator::Refusal() const {
  v1::Refusal refusal;
  constexpr int kShown = 3;
  std::vector<std::string> shown;
  for (int i = 0; i < std::min(kShown, problems_.size()); ++i) {
    shown.push_back(absl::StrCat(problems_[i].field(), " ", problems_[i].description()));
  }
  if (problems_.size() > kShown) shown.push_back(absl::StrCat("and ", problems_.size() - kShown, " more"));
  refusal.set_reason(v1::REFUSAL_REASON_INVALID_ARGUMENT);
  refusal.set_message(absl::StrJoin(shown, "; "));
  *refusal.mutable_field_problems() = problems_;
  return refusal;
}

}  // namespace distlock::contract
