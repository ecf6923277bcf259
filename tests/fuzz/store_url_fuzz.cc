// SPDX-License-Identifier: Apache-2.0
//
// Redis URLs: no text crashes the parser, and no password is in an error or in the masked form. A byte 0x01 stands for
// a password and the '@' behind it.
#include <string>

#include "bytes.h"
#include "core/check.h"
#include "store/store_url.h"

namespace {

using distlock::store::StoreUrl;

constexpr std::string_view kPlanted = ":QQQQ@";

void CheckSilence(std::string_view text) { DISTLOCK_CHECK(text.find(distlock::fuzz::kSecret) == text.npos); }

void CheckMeaning(const StoreUrl& url) {
  DISTLOCK_CHECK(url.address.port > 0 && url.address.port <= 65535 && url.db >= 0);
  const bool several = url.topology != StoreUrl::Topology::kSingle;
  DISTLOCK_CHECK((url.transport == StoreUrl::Transport::kUnix || several) == url.address.host.empty());
  DISTLOCK_CHECK((url.topology == StoreUrl::Topology::kSentinel) == !url.sentinels.empty());
  DISTLOCK_CHECK((url.topology == StoreUrl::Topology::kCluster) == !url.seeds.empty());
  DISTLOCK_CHECK((url.topology == StoreUrl::Topology::kQuorum) == !url.servers.empty());
  DISTLOCK_CHECK(url.sentinels.empty() == url.primary_name.empty());
  DISTLOCK_CHECK(url.servers.empty() || url.servers.size() % 2 == 1);
  for (const auto* places : {&url.sentinels, &url.seeds, &url.servers}) {
    DISTLOCK_CHECK(places->size() <= distlock::store::kMaxAddresses);
    for (const auto& one : *places) DISTLOCK_CHECK(!one.host.empty() && one.port > 0 && one.port <= 65535);
  }
  DISTLOCK_CHECK((url.transport == StoreUrl::Transport::kUnix) == !url.address.path.empty());
  DISTLOCK_CHECK(url.address.path.find('\0') == std::string::npos && url.password.find('\0') == std::string::npos);
  const std::string masked = url.Masked();
  if (!url.password.empty() && url.password.find(distlock::fuzz::kSecret) != std::string::npos) CheckSilence(masked);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  distlock::fuzz::Bytes bytes(data, size);
  const std::string text = distlock::fuzz::Planted(bytes.Rest(), kPlanted);
  const auto url = distlock::store::ParseStoreUrl(text);
  if (url.ok()) {
    CheckMeaning(*url);
  } else {
    CheckSilence(std::string_view(url.status().message().data(), url.status().message().size()));
  }
  return 0;
}
