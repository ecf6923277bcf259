// SPDX-License-Identifier: Apache-2.0
//
// Converts requests to core types. Collects all bad fields of a request before it is refused, so that the caller can
// correct them at once.
//
// A Validator lives for one request, on one thread; `limits` outlives it. The values it returns are usable only when
// ok().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "contract/lease_id.h"
#include "contract/limits.h"
#include "core/messages.h"
#include "distlock/v1/lock.pb.h"

namespace distlock::contract {

// Names a field of a request; builds the text only when the field is bad. Must not outlive its parts.
struct FieldPath {
  std::string_view of;  // the enclosing field, such as "lock"; empty: the request itself
  std::string_view field;

  FieldPath(std::string_view whole) : field(whole) {}
  FieldPath(const char* whole) : field(whole) {}
  FieldPath(const std::string& whole) : field(whole) {}
  FieldPath(std::string_view of_field, std::string_view name) : of(of_field), field(name) {}

  std::string Text() const;
};

// Which locks are listed or watched, in the escaped form of LockName.
struct LockSearch {
  std::string escaped_namespace;  // "": all
  std::string escaped_prefix;

  bool Covers(const core::LockName& name) const;
};

class Validator {
 public:
  explicit Validator(const Limits& limits) : limits_(limits) {}

  // Sets everything but session, request, owner and info. `path` is the field of the spec, such as "lock".
  core::Acquire Spec(const v1::LockSpec& spec, std::string_view path, bool detached);

  // The locks of one request, 1..core::kMaxTogether: each checked by Spec. Several must be different, with the same
  // max_wait, and none reentrant. Empty when there are too few or too many. `path` is the field, such as "locks".
  std::vector<core::Acquire> Locks(const google::protobuf::RepeatedPtrField<v1::LockSpec>& specs, std::string_view path,
                                   bool detached);

  core::LockName Name(std::string_view ns, std::string_view key, std::string_view path);
  // For ListLocks and WatchLocks.
  LockSearch Search(std::string_view ns, std::string_view key_prefix);
  void RequestId(std::string_view id, FieldPath field = "request_id");
  LeaseId Lease(std::string_view text, FieldPath field);
  // Names an earlier command; 0: none is named.
  void AcquireId(int64_t id, FieldPath field);
  // How many to list: `size`, which 0 leaves to us.
  uint32_t Page(int32_t size, FieldPath field);
  // 0..most.
  uint32_t Count(int32_t value, uint32_t most, FieldPath field);
  void Text(std::string_view value, size_t max_bytes, FieldPath field);
  core::Duration Time(const google::protobuf::Duration& value, core::Duration min, core::Duration max, FieldPath field);
  void Bad(FieldPath field, std::string description);

  bool ok() const { return problems_.empty(); }

  // INVALID_ARGUMENT with every bad field. Only when not ok().
  v1::Refusal Refusal() const;

 private:
  core::Want ModeAndPolicy(const v1::LockSpec& spec, std::string_view path);

  const Limits& limits_;
  google::protobuf::RepeatedPtrField<v1::FieldProblem> problems_;
};

}  // namespace distlock::contract
