// SPDX-License-Identifier: Apache-2.0
#include "rpc/admission.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/refusal.h"

namespace distlock::rpc {

std::string PeerHost(const std::string& peer) {
  const bool has_port = peer.rfind("ipv4:", 0) == 0 || peer.rfind("ipv6:", 0) == 0;
  return has_port ? peer.substr(0, peer.rfind(':')) : peer;
}

std::optional<v1::Refusal> Admission::Admit(const std::string& peer, uint64_t id, std::weak_ptr<OpenStream> stream) {
  using core::RefusalReason;
  if (draining()) return contract::DrainingRefusal();
  std::lock_guard lock(mu_);
  if (streams_.size() >= limits_.max_sessions) {
    return contract::MakeRefusal(
        RefusalReason::kQuotaExceeded,
        absl::StrCat("this broker serves at most ", limits_.max_sessions,
                     " streams (--max-sessions); use one Session for many locks, or ask another broker"));
  }
  const std::string host = PeerHost(peer);
  const auto counted = per_peer_.find(host);
  if (counted != per_peer_.end() && counted->second >= limits_.max_sessions_per_peer) {
    return contract::MakeRefusal(
        RefusalReason::kQuotaExceeded,
        absl::StrCat("peer ", host, " has ", counted->second,
                     " streams, the most it may (--max-sessions-per-peer); use one Session for many locks"));
  }
  ++per_peer_[host];
  streams_.emplace(id, std::move(stream));
  return std::nullopt;
}

void Admission::Leave(const std::string& peer, uint64_t id) {
  std::lock_guard lock(mu_);
  if (streams_.erase(id) == 0) return;
  const auto counted = per_peer_.find(PeerHost(peer));
  if (counted != per_peer_.end() && --counted->second == 0) per_peer_.erase(counted);
}

size_t Admission::streams() const {
  std::lock_guard lock(mu_);
  return streams_.size();
}

std::vector<std::pair<uint64_t, std::shared_ptr<OpenStream>>> Admission::StreamsAfter(uint64_t after,
                                                                                      size_t count) const {
  std::vector<std::pair<uint64_t, std::shared_ptr<OpenStream>>> found;
  {
    std::lock_guard lock(mu_);
    for (const auto& [id, stream] : streams_) {
      if (id <= after) continue;
      if (auto alive = stream.lock()) found.emplace_back(id, std::move(alive));
    }
  }
  // Those beyond the page are let go outside of mu_, too: the last owner's end comes back to Leave().
  const auto by_id = [](const auto& a, const auto& b) { return a.first < b.first; };
  const size_t shown = std::min(count, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(shown), found.end(), by_id);
  found.resize(shown);
  return found;
}

void Admission::StopStreams() {
  std::vector<std::shared_ptr<OpenStream>> open;
  {
    std::lock_guard lock(mu_);
    for (const auto& [id, stream] : streams_) {
      if (auto alive = stream.lock()) open.push_back(std::move(alive));
    }
  }
  for (const auto& stream : open) stream->Stop();
}

}  // namespace distlock::rpc
