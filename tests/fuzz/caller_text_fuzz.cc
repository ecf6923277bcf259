// SPDX-License-Identifier: Apache-2.0
//
// Opaque text that a caller or the store hands back: lease ids (exactly those that were made are taken), holder infos
// (anything may have been written there), and UTF-8. A lease id is made from the input as well, and mangled.
#include <algorithm>
#include <chrono>
#include <string>

#include "bytes.h"
#include "contract/holder_info.h"
#include "contract/lease_id.h"
#include "contract/limits.h"
#include "contract/show.h"
#include "contract/to_proto.h"
#include "contract/utf8.h"
#include "contract/validate.h"
#include "core/check.h"
#include "distlock/v1/lock.pb.h"
#include "distlock/wire/utf8.h"

namespace {

using distlock::contract::LeaseId;
using distlock::fuzz::Bytes;
namespace v1 = distlock::v1;

void CheckLeaseId(std::string_view text) {
  const auto lease = distlock::contract::DecodeLeaseId(text);
  if (!lease) return;
  DISTLOCK_CHECK(distlock::contract::EncodeLeaseId(*lease) == text);
  DISTLOCK_CHECK(lease->ttl > distlock::core::Duration::zero() && !lease->name.empty());
}

void CheckMadeLeaseId(Bytes& bytes) {
  LeaseId lease;
  const std::string ns(bytes.Text());
  const std::string key(bytes.Text());
  if (ns.empty() || key.empty()) return;
  lease.name = distlock::core::LockName::Encode(ns, key);
  for (uint8_t& byte : lease.owner) byte = bytes.Byte();
  lease.owner[15] |= 1;  // all zeros is nobody
  lease.ttl = std::chrono::milliseconds(std::max<uint32_t>(bytes.Number<uint32_t>(), 1));
  lease.hold_until.us = bytes.Number<uint32_t>();
  lease.token = std::max<uint64_t>(bytes.Number<uint64_t>(), 1);
  std::string text = distlock::contract::EncodeLeaseId(lease);
  DISTLOCK_CHECK(distlock::contract::DecodeLeaseId(text) == lease);

  const char other = static_cast<char>(bytes.Byte());
  char& at = text[bytes.Number<uint16_t>() % text.size()];
  if (at == other) return;
  at = other;
  // Four bytes of hash let one in four thousand million pass; those must still be well-formed.
  CheckLeaseId(text);
}

void CheckInfo(std::string_view text) {
  const v1::Holder read = distlock::contract::ParseInfo(text);
  DISTLOCK_CHECK(v1::LockMode_IsValid(read.mode()) && read.mode() != v1::LOCK_MODE_UNSPECIFIED);
  DISTLOCK_CHECK(read.holder_id().empty());
  v1::LockSpec spec;
  spec.set_owner(read.owner());
  *spec.mutable_metadata() = read.metadata();
  const v1::Holder again = distlock::contract::ParseInfo(distlock::contract::MakeInfo(spec, read.broker_id(), 0));
  DISTLOCK_CHECK(again.owner() == read.owner() && again.broker_id() == read.broker_id());

  distlock::core::HolderView view;
  view.info = text;
  // A text shown to others must be a message that every client can read.
  v1::Holder shown;
  DISTLOCK_CHECK(shown.ParseFromString(distlock::contract::HolderOf(view).SerializeAsString()));
}

void CheckUtf8(std::string_view text, size_t most) {
  const std::string clean = distlock::contract::CleanText(text);
  DISTLOCK_CHECK(distlock::wire::IsUtf8(clean));
  if (distlock::wire::IsUtf8(text)) DISTLOCK_CHECK(clean == text);
  const std::string shown = distlock::contract::Shorten(clean, most);
  DISTLOCK_CHECK(distlock::wire::IsUtf8(shown));
  DISTLOCK_CHECK(std::none_of(shown.begin(), shown.end(), [](char c) { return c >= 0 && c < ' '; }));
}

void CheckName(std::string_view text) {
  const distlock::contract::Limits limits;
  distlock::contract::Validator check(limits);
  const auto name = check.Name("", text, "lock");
  if (check.ok())
    DISTLOCK_CHECK(name.Decode().second == text);
  else
    DISTLOCK_CHECK(distlock::wire::IsUtf8(check.Refusal().message()));
  DISTLOCK_CHECK(distlock::wire::IsUtf8(distlock::contract::Show(name)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  if (bytes.Flag()) {
    CheckMadeLeaseId(bytes);
    return 0;
  }
  const size_t most = bytes.Byte();
  const std::string_view text = bytes.Rest();
  CheckLeaseId(text);
  CheckInfo(text);
  CheckUtf8(text, most);
  CheckName(text);
  return 0;
}
