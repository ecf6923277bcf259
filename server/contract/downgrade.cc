// SPDX-License-Identifier: Apache-2.0
#include "contract/downgrade.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/holder_info.h"
#include "contract/lease_id.h"
#include "contract/refusal.h"
#include "contract/validate.h"
#include "core/refusal_causes.h"

namespace distlock::contract {
namespace {

v1::Refusal NotSupported(std::string message) {
  return MakeRefusal(core::RefusalReason::kNotSupported, std::move(message));
}

}  // namespace

std::variant<core::Convert, v1::Refusal> CheckDowngrade(const Limits& limits, core::RequestId acquire,
                                                        std::string_view lease_id, v1::LockMode mode,
                                                        std::string_view path) {
  const std::string prefix = path.empty() ? "" : std::string(path) + ".";
  Validator check(limits);
  LeaseId lease;
  if (acquire == 0) lease = check.Lease(lease_id, prefix + "lease_id");
  if (mode == v1::LOCK_MODE_UNSPECIFIED || !v1::LockMode_IsValid(mode)) {
    check.Bad(prefix + "mode",
              absl::StrCat("is ", static_cast<int>(mode), "; SHARED is what a lease can be converted to"));
  }
  if (!check.ok()) return check.Refusal();
  if (mode == v1::LOCK_MODE_EXCLUSIVE) return NotSupported(core::kNoUpgrade);
  if (mode != v1::LOCK_MODE_SHARED) {
    return NotSupported(
        "a lease cannot become PERMIT, which is another kind of lock; only EXCLUSIVE to SHARED is possible");
  }
  return core::Convert{.acquire = acquire,
                       .name = std::move(lease.name),
                       .owner = lease.owner,
                       .token = lease.token,
                       .info = ModeOverride(v1::LOCK_MODE_SHARED)};
}

}  // namespace distlock::contract
