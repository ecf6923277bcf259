// SPDX-License-Identifier: Apache-2.0
//
// Addresses to listen on, secrets on their way to a log, and text made safe to show: no text crashes, an accepted
// address has a host and a port; what is shown is one line.
#include <algorithm>
#include <string>

#include "acceptor/address.h"
#include "bytes.h"
#include "core/check.h"
#include "ops/secrets.h"
#include "ops/text.h"
#include "text/unix_address.h"

namespace {

bool HasControlByte(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

void CheckShown(std::string_view text) {
  const std::string quoted = distlock::ops::JsonQuoted(text);
  DISTLOCK_CHECK(quoted.size() >= 2 && quoted.front() == '"' && quoted.back() == '"');
  DISTLOCK_CHECK(!HasControlByte(quoted) && !HasControlByte(distlock::ops::WordOrQuoted(text)));
  const std::string redacted = distlock::ops::Redacted(text);
  DISTLOCK_CHECK(redacted.size() <= 8);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  distlock::fuzz::Bytes bytes(data, size);
  const std::string_view text = bytes.Rest();
  if (const auto address = distlock::acceptor::ParseHostPort(text); address.ok()) {
    DISTLOCK_CHECK(!address->host.empty() && address->port >= 0 && address->port <= 65535);
    distlock::acceptor::IsLoopback(address->host);
  }
  if (distlock::acceptor::CheckListenAddress(text).ok()) {
    DISTLOCK_CHECK(distlock::text::IsUnixAddress(text) || distlock::acceptor::ParseHostPort(text).ok());
  }
  const std::string url = distlock::fuzz::Planted(text, "redis://u:QQQQ@");
  DISTLOCK_CHECK(distlock::ops::RedactedUrl(url).find(distlock::fuzz::kSecret) == std::string::npos);
  CheckShown(text);
  return 0;
}
