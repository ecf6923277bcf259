// SPDX-License-Identifier: Apache-2.0
#include "store/redis/reply_parts.h"

#include <limits>
#include <utility>

#include "store/redis/error_class.h"
#include "store/redis/reply_code.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

// owner, token, since, ttl and delay as five strings from `i` on.
std::optional<core::HolderView> ReadHolderFields(const ReplyArray& reply, size_t i) {
  const auto hex = reply.String(i);
  const auto owner = hex ? ParseOwner(*hex) : std::nullopt;
  const auto token = Number(reply, i + 1);
  const auto since = Number(reply, i + 2);
  const auto ttl = Number(reply, i + 3);
  const auto delay = Number(reply, i + 4);
  if (!owner || !token || !since || !ttl || !delay) return std::nullopt;
  core::HolderView view;
  view.owner = *owner;
  view.token = *token;
  view.since = AsStoreTime(*since);
  view.held_for = HeldFor(reply, view.since);
  view.ttl = FromMs(*ttl);
  view.lock_delay = FromMs(*delay);
  view.time_left = FromMs(*ttl) + FromMs(*delay);
  return view;
}

}  // namespace

std::optional<uint64_t> Number(const ReplyArray& reply, size_t i) {
  const auto text = reply.String(i);
  return text ? ParseNumber(*text) : std::nullopt;
}

std::optional<uint32_t> Count(const ReplyArray& reply, size_t i) {
  const auto n = reply.Integer(i);
  if (!n || *n < 0 || *n > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(*n);
}

core::Duration HeldFor(const ReplyArray& reply, core::StoreTime since) {
  return std::chrono::microseconds(AsStoreTime(Number(reply, 1).value_or(0)).us - since.us);
}

std::optional<std::vector<core::HolderView>> ReadHolders(const ReplyArray& reply, size_t i, size_t end) {
  std::vector<core::HolderView> holders;
  if (i > end || (end - i) % 2 != 0) return std::nullopt;
  for (; i < end; i += 2) {
    const auto left = reply.Integer(i);
    const auto value = reply.String(i + 1);
    auto holder = left && value ? ParseHolder(*value, *left) : std::nullopt;
    if (!holder) return std::nullopt;
    holder->held_for = HeldFor(reply, holder->since);
    holders.push_back(*std::move(holder));
  }
  return holders;
}

std::optional<core::Mode> ModeOf(std::string_view kind) {
  if (kind == "x") return core::Mode::kExclusive;
  if (kind == "s") return core::Mode::kShared;
  if (kind == "p") return core::Mode::kPermit;
  return std::nullopt;
}

std::optional<std::vector<core::HolderView>> ReadGrants(const ReplyArray& reply, size_t i) {
  std::vector<core::HolderView> grants;
  for (; i < reply.size(); i += 5) {
    auto grant = ReadHolderFields(reply, i);
    if (!grant) return std::nullopt;
    grants.push_back(*std::move(grant));
  }
  return grants;
}

core::StoreFailed ForeignKey(const ReplyArray& reply) {
  const std::string_view key = reply.String(2).value_or("?");
  const std::string_view what = reply.String(3).value_or("?");
  return {core::FailureKind::kForeignKey,
          Cat("the store has something else under ", key, " (", what == "shape" ? "a value that is not a lock's" : what,
              "); remove it or use another key")};
}

std::variant<core::StoreUnknown, core::StoreFailed> ReadError(std::string_view text) {
  std::string cause(text);
  switch (ClassifyError(text)) {
    case ErrorClass::kUnknown:
      return core::StoreUnknown{std::move(cause)};
    case ErrorClass::kFull:
      return core::StoreFailed{core::FailureKind::kFull, std::move(cause)};
    case ErrorClass::kNoScript:
    case ErrorClass::kUnavailable:
    case ErrorClass::kWrongServer:
    case ErrorClass::kDenied:
      return core::StoreFailed{core::FailureKind::kUnavailable, std::move(cause)};
  }
  return core::StoreUnknown{std::move(cause)};
}

}  // namespace distlock::store
