// SPDX-License-Identifier: Apache-2.0
#include "contract/lease_id.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/escaping.h"

namespace distlock::contract {
namespace {

constexpr char kVersion = 3;
constexpr size_t kHead = 1 + 16 + 4 + 8 + 8;
constexpr size_t kCheck = sizeof(uint32_t);
// No lease id is longer, whatever the limits are, since escaping at most triples a name.
constexpr size_t kMaxText = 256 * 1024;

template <typename T>
void PutBigEndian(std::string& out, T value) {
  for (int shift = 8 * (sizeof(T) - 1); shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

template <typename T>
T TakeBigEndian(std::string_view& in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value << 8) | static_cast<uint8_t>(in[i]);
  in.remove_prefix(sizeof(T));
  return value;
}

uint32_t CheckOf(std::string_view raw) {
  const auto* bytes = reinterpret_cast<const Bytef*>(raw.data());
  return static_cast<uint32_t>(crc32(crc32(0, nullptr, 0), bytes, static_cast<uInt>(raw.size())));
}

}  // namespace

std::string EncodeLeaseId(const LeaseId& lease) {
  std::string raw;
  raw.reserve(kHead + lease.name.escaped().size() + kCheck);
  raw.push_back(kVersion);
  raw.append(lease.owner.begin(), lease.owner.end());
  PutBigEndian(raw, static_cast<uint32_t>(std::chrono::floor<std::chrono::milliseconds>(lease.ttl).count()));
  PutBigEndian(raw, static_cast<uint64_t>(lease.hold_until.us));
  PutBigEndian(raw, lease.token);
  raw.append(lease.name.escaped());
  PutBigEndian(raw, CheckOf(raw));
  return absl::WebSafeBase64Escape(raw);
}

std::optional<LeaseId> DecodeLeaseId(std::string_view text) {
  std::string raw;
  if (text.size() > kMaxText || !absl::WebSafeBase64Unescape(std::string(text), &raw) || raw.size() < kHead + kCheck)
    return {};
  // Unescaping also accepts padding, blanks and stray low bits, which EncodeLeaseId never writes.
  if (absl::WebSafeBase64Escape(raw) != text || raw[0] != kVersion) return {};
  std::string_view check = std::string_view(raw).substr(raw.size() - kCheck);
  if (TakeBigEndian<uint32_t>(check) != CheckOf(std::string_view(raw).substr(0, raw.size() - kCheck))) return {};
  raw.resize(raw.size() - kCheck);

  std::string_view in = std::string_view(raw).substr(1);
  LeaseId lease;
  std::copy_n(in.begin(), lease.owner.size(), lease.owner.begin());
  in.remove_prefix(lease.owner.size());
  lease.ttl = std::chrono::milliseconds(TakeBigEndian<uint32_t>(in));
  const auto hold_until = TakeBigEndian<uint64_t>(in);
  lease.token = TakeBigEndian<uint64_t>(in);
  const auto name = core::LockName::FromEscaped(in);
  // An owner of all zeros stands for a lock_delay, not for a lease. To the store, token 0 would be any grant of the
  // owner.
  if (!name || lease.owner == core::OwnerId{} || lease.token == 0 || lease.ttl <= core::Duration::zero() ||
      hold_until > static_cast<uint64_t>(core::kMaxStoreTime.us)) {
    return {};
  }
  lease.hold_until.us = static_cast<int64_t>(hold_until);
  lease.name = *name;
  return lease;
}

}  // namespace distlock::contract
