// SPDX-License-Identifier: Apache-2.0
#include "contract/adopt.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/ids.h"
#include "contract/validate.h"

namespace distlock::contract {
namespace {

constexpr uint32_t kMostHolds = 1000;

}  // namespace

std::variant<core::Adopt, v1::Refusal> CheckAdopt(const Limits& limits, const v1::AdoptLease& wanted,
                                                  const AdoptionTry& of, std::string_view path,
                                                  std::string_view identity) {
  const auto at = [&](std::string_view field) { return absl::StrCat(std::string(path), ".", std::string(field)); };
  Validator check(limits);
  LeaseId lease = check.Lease(wanted.lease_id(), at("lease_id"));
  if (wanted.request_id().empty()) check.Bad(at("request_id"), "is empty; send a random UUID");
  check.RequestId(wanted.request_id(), at("request_id"));
  core::Acquire terms = check.Spec(wanted.lock(), at("lock"), /*detached=*/false);
  const uint32_t holds = std::max<uint32_t>(check.Count(wanted.hold_count(), kMostHolds, at("hold_count")), 1);
  if (holds > 1 && terms.reentry.empty()) check.Bad(at("hold_count"), "is for reentrant locks; set lock.reentrant");
  if (check.ok() && terms.name != lease.name) check.Bad(at("lock.key"), "is not the lock of lease_id");
  if (!check.ok()) return check.Refusal();
  return core::Adopt{.name = std::move(lease.name),
                     .from = lease.owner,
                     .token = lease.token,
                     .owner = OwnerIdOfAdoption(terms.name, RequestOf(identity, wanted.request_id()), of),
                     .ttl = lease.ttl,
                     .want = terms.want,
                     .max_hold = terms.max_hold,
                     .on_disconnect = terms.on_disconnect,
                     .resume = terms.resume,
                     .tell_wanted = terms.tell_wanted,
                     .info = {},
                     .reentry = std::move(terms.reentry),
                     .hold_count = holds};
}

}  // namespace distlock::contract
