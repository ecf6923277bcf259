// SPDX-License-Identifier: Apache-2.0
//
// The part of Codec that decodes messages of the hand-off channel.
#include <utility>

#include "store/redis/codec.h"
#include "store/redis/wire_value.h"
#include "store/text.h"

namespace distlock::store {
namespace {

// "since_us;ms"
std::optional<core::GrantNotice> ReadBlock(core::LockName name, const std::vector<std::string_view>& fields) {
  const auto since = ParseNumber(fields[0]);
  const auto block = ParseNumber(fields[1]);
  if (!since || !block) return std::nullopt;
  return core::GrantNotice{.name = std::move(name), .since = AsStoreTime(*since), .ttl = FromMs(*block)};
}

// "owner;token;reason"; the reason may hold any bytes
std::optional<core::ForceNotice> ReadForceNotice(core::LockName name, std::string_view rest) {
  const size_t first = rest.find(';');
  const size_t second = first == std::string_view::npos ? first : rest.find(';', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto owner = ParseOwner(rest.substr(0, first));
  const auto token = ParseNumber(rest.substr(first + 1, second - first - 1));
  if (!owner || !token || *token == 0) return std::nullopt;
  return core::ForceNotice{std::move(name), *owner, *token, std::string(rest.substr(second + 1))};
}

// "owner;token"
std::optional<core::WantedNotice> ReadWantedNotice(core::LockName name, std::string_view rest) {
  const auto [hex, digits] = Cut(rest, ';');
  const auto owner = ParseOwner(hex);
  const auto token = ParseNumber(digits);
  if (!owner || !token || *token == 0) return std::nullopt;
  return core::WantedNotice{std::move(name), *owner, *token};
}

}  // namespace

std::optional<core::Input> Codec::DecodeNotice(std::string_view payload) {
  constexpr std::string_view kForce = "force;";
  constexpr std::string_view kWanted = "wanted;";
  const size_t line = payload.find('\n');
  if (line == std::string_view::npos) return std::nullopt;
  auto name = core::LockName::FromEscaped(payload.substr(0, line));
  const std::string_view rest = payload.substr(line + 1);
  if (name && rest.starts_with(kForce)) return ReadForceNotice(*std::move(name), rest.substr(kForce.size()));
  if (name && rest.starts_with(kWanted)) return ReadWantedNotice(*std::move(name), rest.substr(kWanted.size()));
  const std::vector<std::string_view> fields = Split(rest, ";");
  if (name && fields.size() == 1 && ParseNumber(fields[0])) return core::ChangeNotice{*std::move(name)};
  if (name && fields.size() == 2) return ReadBlock(*std::move(name), fields);
  if (!name || fields.size() != 5) return std::nullopt;
  const auto owner = ParseOwner(fields[0]);
  const auto token = ParseNumber(fields[1]);
  const auto since = ParseNumber(fields[2]);
  const auto ttl = ParseNumber(fields[3]);
  if (!owner || !token || *token == 0 || !since || !ttl || !ParseNumber(fields[4])) return std::nullopt;
  core::GrantNotice notice;
  notice.name = *std::move(name);
  notice.owner = *owner;
  notice.token = *token;
  notice.since = AsStoreTime(*since);
  notice.ttl = FromMs(*ttl);
  return notice;
}

}  // namespace distlock::store
