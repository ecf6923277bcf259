// SPDX-License-Identifier: Apache-2.0
#include "store/cluster/redirect.h"

#include "store/text.h"

namespace distlock::store {
namespace {

// "host:port"; an IPv6 address stands without brackets, so that the last colon counts. False: another shape.
bool ReadEndpoint(std::string_view text, const ServerAddress& asked, std::optional<ServerAddress>& to) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  ServerAddress address;
  if (!ReadInt(text.substr(colon + 1), &address.port) || address.port < 1 || address.port > 65535) return false;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "?") return true;
  address.host = std::string(host.empty() ? std::string_view(asked.host) : host);
  to = address;
  return true;
}

}  // namespace

std::optional<Redirect> ParseRedirect(std::string_view error, const ServerAddress& asked) {
  const std::vector<std::string_view> words = Split(error, " ");
  if (words[0] == "TRYAGAIN") return Redirect{.kind = Redirect::Kind::kTryAgain, .to = {}};
  if (words[0] == "CLUSTERDOWN") return Redirect{.kind = Redirect::Kind::kClusterDown, .to = {}};
  if (words[0] != "MOVED" && words[0] != "ASK") return std::nullopt;
  Redirect redirect{.kind = words[0] == "ASK" ? Redirect::Kind::kAsk : Redirect::Kind::kMoved, .to = {}};
  int slot = 0;
  if (words.size() < 3 || !ReadInt(words[1], &slot) || slot < 0 || slot >= static_cast<int>(kSlots)) {
    return std::nullopt;
  }
  redirect.slot = static_cast<Slot>(slot);
  if (!ReadEndpoint(words[2], asked, redirect.to)) return std::nullopt;
  return redirect;
}

}  // namespace distlock::store
