// SPDX-License-Identifier: Apache-2.0
#include "store/redis/wire_value.h"

#include <algorithm>
#include <limits>

#include "store/text.h"
#include "store/wanted_by.h"

namespace distlock::store {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

// Cuts the text up to the next ';' off the front; nullopt when there is no ';'.
std::optional<std::string_view> TakeField(std::string_view& rest) {
  const size_t end = rest.find(';');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view field = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return field;
}

std::optional<uint64_t> TakeNumber(std::string_view& rest) {
  const auto field = TakeField(rest);
  return field ? ParseNumber(*field) : std::nullopt;
}

// "p<place>;<broker_id>.<mark>;" at the front of an info, as one of several servers has it; "": there is none.
std::string_view MarkOf(std::string_view info) {
  std::string_view rest = info;
  if (!info.starts_with('p') || !TakeField(rest) || !TakeField(rest)) return {};
  return info.substr(0, info.size() - rest.size());
}

// The info of a holder or waiter, without the bounds of the hold in front of it, and without who tells it when somebody
// wants the lock. `min_hold`, `wanted_by`: where the first bound and that broker's number go.
std::string ReadInfo(std::string_view info, core::Duration& min_hold, uint64_t& wanted_by) {
  for (const char bound : {'m', 'h'}) {
    if (!info.starts_with(bound)) continue;
    std::string_view rest = info.substr(1);
    const auto ms = TakeNumber(rest);
    if (!ms) continue;
    if (bound == 'm') min_hold = FromMs(*ms);
    info = rest;
  }
  const std::string_view mark = MarkOf(info);
  std::string_view rest = info.substr(mark.size());
  wanted_by = TakeWantedBy(rest);
  return wanted_by == 0 ? std::string(info) : Cat(mark, rest);
}

}  // namespace

std::string HexOfOwner(const core::OwnerId& owner) {
  std::string out(2 * owner.size(), '\0');
  for (size_t i = 0; i < owner.size(); ++i) {
    out[2 * i] = kHexDigits[owner[i] >> 4];
    out[2 * i + 1] = kHexDigits[owner[i] & 15];
  }
  return out;
}

std::optional<core::OwnerId> ParseOwner(std::string_view hex) {
  core::OwnerId owner{};
  if (hex.size() != 2 * owner.size()) return std::nullopt;
  for (size_t i = 0; i < owner.size(); ++i) {
    const int high = HexDigit(hex[2 * i]);
    const int low = HexDigit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    owner[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return owner;
}

std::optional<uint64_t> ParseNumber(std::string_view digits) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  if (digits.empty()) return std::nullopt;
  uint64_t value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<uint64_t>(c - '0');
    value = value > (kMax - digit) / 10 ? kMax : value * 10 + digit;
  }
  return value;
}

int64_t CeilMs(core::Duration duration) {
  return std::max<int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

core::Duration FromMs(uint64_t ms) {
  // A quarter of the largest, so that the sum of a ttl and a delay fits.
  constexpr uint64_t kMaxMs = std::chrono::floor<std::chrono::milliseconds>(core::Duration::max() / 4).count();
  return std::chrono::milliseconds(std::min(ms, kMaxMs));
}

core::Duration FromPttl(int64_t pttl_ms) { return FromMs(static_cast<uint64_t>(std::max<int64_t>(pttl_ms, 0))); }

core::StoreTime AsStoreTime(uint64_t us) {
  return {static_cast<int64_t>(std::min<uint64_t>(us, core::kMaxStoreTime.us))};
}

std::optional<core::HolderView> ParseHolder(std::string_view value, int64_t pttl_ms) {
  const auto version = TakeField(value);
  if (version != "1") return std::nullopt;
  const auto owner_hex = TakeField(value);
  const auto owner = owner_hex ? ParseOwner(*owner_hex) : std::nullopt;
  const auto token = TakeNumber(value);
  const auto since = TakeNumber(value);
  const auto ttl = TakeNumber(value);
  const auto delay = TakeNumber(value);
  if (!owner || !token || !since || !ttl || !delay) return std::nullopt;
  core::HolderView view;
  view.owner = *owner;
  view.token = *token;
  view.since = AsStoreTime(*since);
  view.ttl = FromMs(*ttl);
  view.lock_delay = FromMs(*delay);
  view.time_left = FromPttl(pttl_ms);
  view.info = ReadInfo(value, view.min_hold, view.wanted_by);
  return view;
}

LockView::WaiterView ParseWaiter(const core::OwnerId& owner, std::string_view value) {
  LockView::WaiterView view;
  view.owner = owner;
  const auto broker = TakeField(value);
  const auto ttl = TakeNumber(value);
  const auto delay = TakeNumber(value);
  const auto want = TakeField(value);
  const auto since = TakeNumber(value);
  if (!broker || !ttl || !delay || !want || !since) return view;
  view.broker_id = std::string(*broker);
  view.ttl = FromMs(*ttl);
  view.since = AsStoreTime(*since);
  core::Duration min_hold{};
  uint64_t wanted_by = 0;
  view.info = ReadInfo(value, min_hold, wanted_by);
  return view;
}

}  // namespace distlock::store
