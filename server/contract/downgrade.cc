// SPDX-License-Identifier: Apache-2.0
#include "contract/downgrade.h"

#include <string>
#include <utility>

#include "contract/holder_info.h"
#include "contract/lease_id.h"
#include "contract/validate.h"

namespace distlock::contract {
std::variant<core::Downgrade, v1::Refusal> CheckDowngrade(const Limits& limits, int64_t acquire_id,
                                                          std::string_view lease_id, std::string_view path) {
  const std::string prefix = path.empty() ? "" : std::string(path) + ".";
  Validator check(limits);
  LeaseId lease;
  check.AcquireId(acquire_id, prefix + "acquire_id");
  if (acquire_id == 0) lease = check.Lease(lease_id, prefix + "lease_id");
  if (!check.ok()) return check.Refusal();
  return core::Downgrade{.acquire = static_cast<core::RequestId>(acquire_id),
                         .name = std::move(lease.name),
                         .owner = lease.owner,
                         .token = lease.token,
                         .info = ModeOverride(v1::LOCK_MODE_SHARED)};
}

}  // namespace distlock::contract
