// SPDX-License-Identifier: Apache-2.0
#include "contract/ids.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "contract/sha256.h"

namespace distlock::contract {
namespace {

void RandomBytes(uint8_t* out, size_t count) {
  if (RAND_bytes(out, static_cast<int>(count)) == 1) return;
  std::fputs("distlockd: the system's random number generator failed\n", stderr);
  std::abort();
}

core::OwnerId Derived(std::string_view purpose, const core::LockName& name, std::string_view request_id) {
  // An escaped name has no newline, so no two pairs give the same text.
  const auto digest = Sha256(absl::StrCat(std::string(purpose), "\n", name.escaped(), "\n", std::string(request_id)));
  core::OwnerId owner;
  std::copy_n(digest.begin(), owner.size(), owner.begin());
  return owner;
}

// The four bytes from `at` on.
void PutNumber(core::OwnerId& owner, size_t at, uint32_t number) {
  for (size_t i = at + 4; i-- > at; number >>= 8) owner[i] = static_cast<uint8_t>(number);
}

// The request's part, the number of the client's session, and random bytes.
core::OwnerId OneTry(const core::OwnerId& request, uint32_t generation) {
  core::OwnerId owner = RandomOwnerId();
  std::copy_n(request.begin(), core::kRequestBytes, owner.begin());
  PutNumber(owner, core::kRequestBytes, generation);
  return owner;
}

}  // namespace

core::OwnerId RandomOwnerId() {
  // A call of the generator is expensive, so one call makes 32 ids.
  thread_local std::array<uint8_t, 32 * sizeof(core::OwnerId)> pool;
  thread_local size_t used = pool.size();
  if (used == pool.size()) {
    RandomBytes(pool.data(), pool.size());
    used = 0;
  }
  core::OwnerId owner;
  std::memcpy(owner.data(), pool.data() + used, owner.size());
  std::memset(pool.data() + used, 0, owner.size());
  used += owner.size();
  if (core::IsDetached(owner) || core::IsTry(owner)) owner[0] = 0;
  return owner;
}

core::OwnerId DetachedOwnerId() {
  core::OwnerId owner = RandomOwnerId();
  owner[0] = core::kDetachedMark;
  return owner;
}

std::string RandomHex(size_t bytes) {
  std::string raw(bytes, '\0');
  RandomBytes(reinterpret_cast<uint8_t*>(raw.data()), raw.size());
  return absl::BytesToHexString(raw);
}

std::string RequestOf(std::string_view identity, std::string_view request_id) {
  if (identity.empty() || request_id.empty()) return std::string(request_id);
  return absl::StrCat(identity.size(), ":", std::string(identity), "\n", std::string(request_id));
}

core::OwnerId OwnerIdOf(const core::LockName& name, std::string_view request_id) {
  core::OwnerId owner = Derived("distlock owner v1", name, request_id);
  owner[0] = core::kRepeatableMark;
  return owner;
}

core::OwnerId OwnerIdOfTry(const core::LockName& name, std::string_view request_id, uint32_t generation) {
  core::OwnerId owner = OneTry(Derived("distlock try v1", name, request_id), generation);
  owner[0] = core::kTryMark;
  return owner;
}

core::OwnerId OwnerIdOnStream(const core::Acquire& acquire, std::string_view request_id, uint32_t generation) {
  const bool is_one_try = acquire.max_wait == core::Duration::zero();
  return request_id.empty() || is_one_try ? RandomOwnerId() : OwnerIdOfTry(acquire.name, request_id, generation);
}

AdoptionTries::AdoptionTries() : last_(0) {
  const core::OwnerId random = RandomOwnerId();
  std::memcpy(&last_, random.data() + core::kTryBytes, sizeof last_);
}

core::OwnerId OwnerIdOfAdoption(const core::LockName& name, std::string_view request_id, const AdoptionTry& of) {
  core::OwnerId owner = Derived("distlock adoption v1", name, request_id);
  PutNumber(owner, core::kRequestBytes, of.generation);
  PutNumber(owner, core::kTryBytes, of.number);
  if (core::IsDetached(owner) || core::IsTry(owner)) owner[0] = 0;
  return owner;
}

std::string HolderIdOf(const core::OwnerId& owner) {
  const auto digest = Sha256({reinterpret_cast<const char*>(owner.data()), owner.size()});
  return absl::BytesToHexString(std::string(reinterpret_cast<const char*>(digest.data()), 8));
}

std::string ShardBrokerId(std::string_view broker_id, int shard) {
  const uint64_t first = std::strtoull(std::string(broker_id).c_str(), nullptr, 16);
  return absl::StrCat(absl::Hex(first + static_cast<uint64_t>(shard), absl::kZeroPad16));
}

bool IsBlocked(const core::OwnerId& owner) { return owner == core::OwnerId{}; }

}  // namespace distlock::contract
