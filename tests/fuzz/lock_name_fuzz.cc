// SPDX-License-Identifier: Apache-2.0
//
// Lock names: Encode and Decode are inverses for all byte strings, the escaped form is a safe hash tag of one line, no
// two names share it, and whatever FromEscaped accepts is what Encode makes.
#include <algorithm>
#include <string>
#include <utility>

#include "bytes.h"
#include "core/check.h"
#include "core/lock_name.h"
#include "store/redis/keys.h"

namespace {

using distlock::core::LockName;

void CheckForm(const LockName& name) {
  const std::string& escaped = name.escaped();
  DISTLOCK_CHECK(std::none_of(escaped.begin(), escaped.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '{' || c == '}';
  }));
}

void CheckRoundTrip(const std::string& ns, const std::string& key) {
  const LockName name = LockName::Encode(ns, key);
  CheckForm(name);
  DISTLOCK_CHECK(name.Decode() == std::pair(ns, key));
  DISTLOCK_CHECK(name.escaped().starts_with(distlock::core::EscapeNamespace(ns) + "/"));
  DISTLOCK_CHECK(name.escaped().ends_with("/" + distlock::core::EscapeKey(key)));
  if (ns.empty() || key.empty()) return;
  DISTLOCK_CHECK(LockName::FromEscaped(name.escaped()) == name);
  const distlock::store::Keys keys("dl");
  DISTLOCK_CHECK(keys.NameOfHolder(keys.Holder(name)) == name);
  DISTLOCK_CHECK(!keys.NameOfHolder(keys.Token(name)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  distlock::fuzz::Bytes bytes(data, size);
  const std::string ns(bytes.Text());
  const std::string key(bytes.Text());
  const std::string other_ns(bytes.Text());
  const std::string other_key(bytes.Text());
  CheckRoundTrip(ns, key);
  CheckRoundTrip(other_ns, other_key);
  const bool same = ns == other_ns && key == other_key;
  DISTLOCK_CHECK((LockName::Encode(ns, key) == LockName::Encode(other_ns, other_key)) == same);

  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto name = LockName::FromEscaped(text)) {
    CheckForm(*name);
    DISTLOCK_CHECK(name->escaped() == text);
    const auto [decoded_ns, decoded_key] = name->Decode();
    DISTLOCK_CHECK(LockName::Encode(decoded_ns, decoded_key) == *name);
  }
  const distlock::store::Keys keys("dl");
  if (const auto name = keys.NameOfHolder(text)) DISTLOCK_CHECK(keys.Holder(*name) == text);
  return 0;
}
