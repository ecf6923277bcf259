// SPDX-License-Identifier: Apache-2.0
#include "rpc/admission.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/refusal.h"

namespace distlock::rpc {
namespace {

// When to retry. A waiting call may be answered at any time, so the pause is short.
constexpr core::Duration kRetryWaiting = std::chrono::seconds(1);

}  // namespace

std::string PeerHost(const std::string& peer) {
  if (peer.rfind("unix:", 0) == 0) return peer.substr(0, peer.find(",pid="));
  if (peer.ends_with("/64")) return peer;  // a network, as the acceptor counts IPv6 addresses
  const bool has_port = peer.rfind("ipv4:", 0) == 0 || peer.rfind("ipv6:", 0) == 0;
  return has_port ? peer.substr(0, peer.rfind(':')) : peer;
}

std::optional<v1::Refusal> Admission::Admit(const std::string& peer, uint64_t id, std::weak_ptr<OpenStream> stream,
                                            bool watch) {
  using core::RefusalReason;
  if (draining()) return contract::DrainingRefusal();
  std::lock_guard lock(mu_);
  if (streams_.size() >= limits_.max_sessions) {
    return contract::MakeRefusal(
        RefusalReason::kQuotaExceeded,
        absl::StrCat("this broker serves at most ", limits_.max_sessions,
                     " streams (limit max-sessions); use one Session for many locks, or ask another broker"));
  }
  Peer& counted = PeerOf(peer);
  const size_t count = watch ? counted.watches : static_cast<size_t>(counted.use->streams);
  if (count >= limits_.max_sessions_per_peer) {
    return contract::MakeRefusal(
        RefusalReason::kQuotaExceeded,
        watch ? absl::StrCat("peer ", PeerHost(peer), " has ", count,
                             " streams that watch, the most it may (limit max-sessions-per-peer); watch many locks "
                             "with one WatchLocks")
              : absl::StrCat("peer ", PeerHost(peer), " has ", count,
                             " streams, the most it may (limit max-sessions-per-peer); use one Session for many "
                             "locks"));
  }
  if (watch) ++counted.watches;
  if (!watch) ++counted.use->streams;
  streams_[id] = {std::move(stream), watch};
  return std::nullopt;
}

void Admission::Leave(const std::string& peer, uint64_t id) {
  std::lock_guard lock(mu_);
  const auto stream = streams_.find(id);
  if (stream == streams_.end()) return;
  const bool watch = stream->second.watch;
  streams_.erase(stream);
  const auto counted = peers_.find(PeerHost(peer));
  if (watch) --counted->second.watches;
  if (!watch) --counted->second.use->streams;
  const Peer& left = counted->second;
  const bool is_empty = left.use->streams == 0 && left.watches == 0 && left.calls == 0;
  if (is_empty && limits_.requests_per_second == 0) peers_.erase(counted);
}

std::shared_ptr<PeerUse> Admission::UseOf(const std::string& peer) {
  std::lock_guard lock(mu_);
  return PeerOf(peer).use;
}

std::optional<v1::Refusal> Admission::AdmitPrefixWatch() {
  std::lock_guard lock(mu_);
  if (prefix_watches_ >= limits_.max_prefix_watches) {
    return contract::MakeRefusal(
        core::RefusalReason::kQuotaExceeded,
        absl::StrCat("this broker serves at most ", limits_.max_prefix_watches,
                     " WatchLocks streams (limit max-prefix-watches); watch single locks, or ask another broker"));
  }
  ++prefix_watches_;
  return std::nullopt;
}

void Admission::LeavePrefixWatch() {
  std::lock_guard lock(mu_);
  --prefix_watches_;
}

std::optional<v1::Refusal> Admission::AdmitCall(const std::string& peer, core::Instant now) {
  using core::RefusalReason;
  std::lock_guard lock(mu_);
  if (calls_ >= limits_.max_waiting_calls) {
    return contract::MakeRefusal(
        RefusalReason::kQuotaExceeded,
        absl::StrCat("this broker lets at most ", limits_.max_waiting_calls,
                     " Acquire calls wait (limit max-waiting-calls); use a Session, or ask another broker"),
        kRetryWaiting);
  }
  if (peers_.size() >= sweep_at_) Sweep(now);
  Peer& counted = PeerOf(peer);
  if (counted.calls >= limits_.max_waiting_calls_per_peer) {
    return contract::MakeRefusal(
        RefusalReason::kQuotaExceeded,
        absl::StrCat("peer ", PeerHost(peer), " has ", counted.calls,
                     " Acquire calls waiting, the most it may (limit max-waiting-calls-per-peer); use a Session"),
        kRetryWaiting);
  }
  if (!counted.rate.Take(now)) {
    return contract::MakeRefusal(
        RefusalReason::kQuotaExceeded,
        absl::StrCat("more than ", limits_.requests_per_second, " Acquire calls per second of peer ", PeerHost(peer),
                     " (limit requests-per-second)"),
        counted.rate.Wait());
  }
  ++counted.calls;
  ++calls_;
  return std::nullopt;
}

void Admission::LeaveCall(const std::string& peer, core::Instant now) {
  std::lock_guard lock(mu_);
  const auto counted = peers_.find(PeerHost(peer));
  --counted->second.calls;
  --calls_;
  if (IsIdle(counted->second, now)) peers_.erase(counted);
}

Admission::Peer& Admission::PeerOf(const std::string& peer) {
  return peers_.try_emplace(PeerHost(peer), Peer{.rate = RateLimit(limits_.requests_per_second)}).first->second;
}

bool Admission::IsIdle(Peer& peer, core::Instant now) const {
  return peer.use->streams == 0 && peer.watches == 0 && peer.calls == 0 &&
         (limits_.requests_per_second == 0 || peer.rate.IsFull(now));
}

void Admission::Sweep(core::Instant now) {
  absl::erase_if(peers_, [&](auto& peer) { return IsIdle(peer.second, now); });
  sweep_at_ = std::max(kFirstSweep, 2 * peers_.size());
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
      if (auto alive = stream.stream.lock()) found.emplace_back(id, std::move(alive));
    }
  }
  // References to streams beyond the page, too, are dropped outside of mu_: the last reference's end calls Leave().
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
      if (auto alive = stream.stream.lock()) open.push_back(std::move(alive));
    }
  }
  for (const auto& stream : open) stream->Stop();
}

}  // namespace distlock::rpc
