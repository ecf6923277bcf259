// SPDX-License-Identifier: Apache-2.0
#include "acceptor/peers.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_replace.h"

namespace distlock::acceptor {
namespace {

constexpr double kCutsPerSecond = 0.1;
constexpr double kCutsAtOnce = 3;
constexpr std::chrono::seconds kPenalty(10);
// Until what the connection has cost is given back.
constexpr std::chrono::seconds kCalm(2);

}  // namespace

std::string CanonicalPeer(std::string_view grpc_peer) {
  std::string text = absl::StrReplaceAll({grpc_peer.data(), grpc_peer.size()}, {{"%5B", "["}, {"%5D", "]"}});
  const size_t zone = text.find("%25");  // the scope of a link-local address
  if (zone != text.npos) text.erase(zone, text.find(']', zone) - zone);
  return text;
}

std::optional<Credentials> CredentialsOf(int fd) {
  ucred found{};
  socklen_t size = sizeof(found);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &found, &size) != 0 || found.uid == static_cast<uid_t>(-1)) {
    return std::nullopt;
  }
  if (found.uid == peer::kOverflowUid) return std::nullopt;
  Credentials who{.uid = found.uid, .gid = found.gid, .groups = {}, .pid = found.pid};
  who.groups.resize(64);
  for (int tries = 0; tries < 2; ++tries) {
    size = static_cast<socklen_t>(who.groups.size() * sizeof(gid_t));
    const bool fits = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, who.groups.data(), &size) == 0;
    who.groups.resize(fits || (tries == 0 && errno == ERANGE) ? size / sizeof(gid_t) : 0);
    if (fits || who.groups.empty()) break;
  }
  return who;
}

std::shared_ptr<Connection> Peers::Find(std::string_view grpc_peer) const {
  const bool is_v6 = grpc_peer.starts_with("ipv6:");
  const std::string canonical = is_v6 ? CanonicalPeer(grpc_peer) : "";
  const std::string_view name = is_v6 ? std::string_view(canonical) : grpc_peer;
  std::lock_guard lock(mu_);
  const auto found = shown_.find(absl::string_view(name.data(), name.size()));
  return found == shown_.end() ? nullptr : found->second;
}

void Peers::Show(const std::string& name, std::shared_ptr<Connection> connection) {
  std::lock_guard lock(mu_);
  shown_[name].swap(connection);
}

void Peers::Hide(const std::string& name, uint64_t id) {
  std::shared_ptr<Connection> last;  // ends outside of mu_
  std::lock_guard lock(mu_);
  const auto found = shown_.find(name);
  if (found == shown_.end() || found->second->id != id) return;
  last = std::move(found->second);
  shown_.erase(found);
}

std::optional<RefuseCause> Peers::Enter(const std::string& peer, Clock::time_point now) {
  if (counted_.size() >= sweep_at_) Sweep(now);
  Peer& counted = Of(peer);
  if (now < counted.shut_until) return RefuseCause::kPenalty;
  if (!connections_.Enter(peer)) return RefuseCause::kPeerConnections;
  return std::nullopt;
}

void Peers::Leave(const std::string& peer, Clock::time_point) { connections_.Leave(peer); }

bool Peers::MayPass(const std::string& peer, bool handshake, RateLimit& all_handshakes, Clock::time_point now) {
  Peer& counted = Of(peer);
  if (now < counted.calm_at || !counted.fresh.Has(now)) return false;
  if (handshake && (!counted.handshakes.Has(now) || !all_handshakes.Take(now))) return false;
  if (handshake) counted.handshakes.Take(now);
  return counted.fresh.Take(now);
}

void Peers::Punish(const std::string& peer, Clock::time_point now) {
  Peer& counted = Of(peer);
  counted.calm_at = now + kCalm;
  if (!counted.cuts.Take(now)) counted.shut_until = now + kPenalty;
}

Peers::Peer& Peers::Of(const std::string& peer) {
  return counted_
      .try_emplace(peer,
                   Peer{.fresh = RateLimit(limits_.connections_per_second, static_cast<double>(limits_.connections)),
                        .handshakes = RateLimit(limits_.handshakes_per_second, 2 * limits_.handshakes_per_second),
                        .cuts = RateLimit(kCutsPerSecond, kCutsAtOnce)})
      .first->second;
}

void Peers::Sweep(Clock::time_point now) {
  absl::erase_if(counted_, [&](auto& entry) {
    Peer& peer = entry.second;
    return connections_.Of(entry.first) == 0 && now >= peer.shut_until && now >= peer.calm_at &&
           peer.fresh.IsFull(now) && peer.handshakes.IsFull(now) && peer.cuts.IsFull(now);
  });
  sweep_at_ = std::max<size_t>(1'024, 2 * counted_.size());
}

}  // namespace distlock::acceptor
