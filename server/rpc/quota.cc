// SPDX-License-Identifier: Apache-2.0
#include "rpc/quota.h"

#include "absl/strings/str_cat.h"
#include "contract/refusal.h"
#include "contract/utf8.h"

namespace distlock::rpc {
namespace {

constexpr core::Duration kRetry = std::chrono::seconds(1);
constexpr char kWhere[] = " at this broker (limits of its policy)";

v1::Refusal Over(const std::string& identity, const std::string& what, core::Duration retry) {
  return contract::MakeRefusal(core::RefusalReason::kQuotaExceeded,
                               contract::CleanText(absl::StrCat(identity, " ", what, kWhere)), retry);
}

}  // namespace

std::optional<v1::Refusal> TooFast(access::Account& account, const std::string& identity, core::Instant now) {
  const int64_t wait_ns = account.Take(now.time_since_epoch().count());
  if (wait_ns == 0) return std::nullopt;
  return Over(identity, absl::StrCat("may send ", account.rate_limit(), " requests per second"),
              core::Duration(wait_ns));
}

std::optional<v1::Refusal> NoRoom(const access::Account& account, const std::string& identity, size_t locks) {
  if (account.HasRoom(static_cast<int64_t>(locks))) return std::nullopt;
  return Over(identity,
              absl::StrCat("holds ", account.leases(), " locks of ", account.lease_limit(), " and waits for ",
                           account.waiters(), " of ", account.waiter_limit(), " that it may (0: any number)"),
              kRetry);
}

v1::Refusal TooManyStreams(const access::Account& account, const std::string& identity) {
  return Over(identity, absl::StrCat("has ", account.session_limit(), " streams, the most it may"), {});
}

}  // namespace distlock::rpc
