// SPDX-License-Identifier: Apache-2.0
#include "world/detached_client.h"

#include "rpc/convert.h"

namespace distlock::sim {
namespace {

constexpr int kMostTries = 8;
constexpr Duration kReleasePatience = seconds(2);

Duration ToDuration(const google::protobuf::Duration& proto) {
  return seconds(proto.seconds()) + std::chrono::nanoseconds(proto.nanos());
}

}  // namespace

class DetachedClient::Ears : public Listener {
 public:
  Ears(DetachedClient* client, int64_t lease, uint64_t call, Duration sent)
      : client_(client), lease_(lease), call_(call), sent_(sent) {}
  void OnGrant(const v1::Grant& grant) override { client_->OnGrant(lease_, call_, sent_, grant); }
  void OnRenewed(Duration valid_for) override { client_->OnRenewed(lease_, call_, sent_, valid_for); }
  void OnReleased(core::ReleaseOutcome outcome) override { client_->OnCallReleased(lease_, call_, outcome); }
  void OnRefused(core::RefusalReason reason) override { client_->OnCallRefused(lease_, call_, reason); }

 private:
  DetachedClient* client_;
  int64_t lease_;
  uint64_t call_;
  Duration sent_;
};

bool DetachedClient::Call(int64_t lease, Duration patience, std::function<void(Front&, core::SessionId)> say) {
  Claim& claim = claims_.at(lease);
  EndCall(claim);
  BrokerProcess* broker = LiveBroker();
  if (broker == nullptr) return false;
  const uint64_t call = claim.call = ++calls_;
  const WirePtr wire = claim.wire = Wire::Connect(env_, *this, *broker);
  auto ears = std::make_shared<Ears>(this, lease, call, LocalTime());
  wire->on_closed[Wire::kClient] = [this, lease, call] { OnCallFailed(lease, call); };
  wire->Send(Wire::kClient, [broker, wire, ears, say = std::move(say)] {
    say(broker->front(), broker->front().Accept(wire, ears));
  });
  PostAfter(patience, [this, lease, call] { OnCallFailed(lease, call); });
  return true;
}

void DetachedClient::EndCall(Claim& claim) {
  claim.call = 0;
  if (claim.wire != nullptr) std::exchange(claim.wire, nullptr)->Close(Wire::kClient);
}

DetachedClient::Claim* DetachedClient::Waiting(int64_t lease, uint64_t call) {
  const auto found = claims_.find(lease);
  return found == claims_.end() || found->second.call != call ? nullptr : &found->second;
}

// ---- Asking ----

void DetachedClient::Ask(Wish& wish) {
  Claim claim;
  if (env_.dice.Chance(0.8)) claim.request_id = "request-of-lease-" + std::to_string(wish.lease) + "-" + std::to_string(actor());
  claims_[wish.lease] = std::move(claim);
  Try(wish.lease);
}

void DetachedClient::Try(int64_t lease) {
  Wish* wish = Find(lease);
  if (wish == nullptr || wish->stage != Stage::kAsking) return;
  Claim& claim = claims_.at(lease);
  const bool more = claim.tries == 0 || !claim.request_id.empty();
  if (++claim.tries > kMostTries || !more) {
    EndCall(claim);
    claims_.erase(lease);
    return OnRefused(*wish, core::RefusalReason::kStoreUnavailable);
  }
  // A caller that is out of patience asks another broker for the same.
  const Duration patience = env_.dice.Chance(0.3) && !claim.request_id.empty() ? env_.dice.Between(milliseconds(5), seconds(1))
                                                                               : seconds(200);
  const bool sent = Call(lease, patience, [spec = SpecOf(*wish), request_id = claim.request_id](Front& front, core::SessionId id) {
    front.Acquire(id, spec, request_id);
  });
  if (!sent) PostAfter(milliseconds(200), [this, lease] { Try(lease); });
}

void DetachedClient::OnGrant(int64_t lease, uint64_t call, Duration sent, const v1::Grant& grant) {
  Claim* claim = Waiting(lease, call);
  Wish* wish = Find(lease);
  if (claim == nullptr || wish == nullptr || wish->stage != Stage::kAsking) return;
  EndCall(*claim);
  claim->lease_id = grant.lease_id();
  OnGranted(*wish, grant.fencing_token());
  const Duration until = sent + ToDuration(grant.valid_for());
  OnBelief(*wish, until);
  if (!Checks(*wish)) return;
  PostAfter((until - LocalTime()) / 3, [this, lease] { Renew(lease); });
}

void DetachedClient::GiveUp(Wish& wish) {
  EndCall(claims_.at(wish.lease));
  claims_.erase(wish.lease);
  Forget(wish);
}

// ---- Holding ----

void DetachedClient::Renew(int64_t lease) {
  Wish* wish = Find(lease);
  if (wish == nullptr || wish->releasing || !Checks(*wish)) return;
  const Duration left = wish->until - env_.now();
  PostAfter(left / 3 + milliseconds(1), [this, lease] { Renew(lease); });
  Call(lease, left, [lease_id = claims_.at(lease).lease_id](Front& front, core::SessionId id) { front.Renew(id, lease_id); });
}

void DetachedClient::OnRenewed(int64_t lease, uint64_t call, Duration sent, Duration valid_for) {
  Claim* claim = Waiting(lease, call);
  Wish* wish = Find(lease);
  if (claim == nullptr || wish == nullptr || wish->releasing || !Checks(*wish)) return;
  EndCall(*claim);
  OnBelief(*wish, std::max(sent + valid_for, Duration(0)));
}

bool DetachedClient::Checks(Wish& wish) {
  if (!wish.releasing && env_.now() >= wish.until) {
    EndCall(claims_.at(wish.lease));
    claims_.erase(wish.lease);
    OnEnded(wish, EndedWhy::kDeadline);
    return false;
  }
  return env_.now() < wish.until;
}

void DetachedClient::GiveBack(Wish& wish) {
  claims_.at(wish.lease).tries = 0;
  TryRelease(wish.lease);
}

void DetachedClient::TryRelease(int64_t lease) {
  Wish* wish = Find(lease);
  if (wish == nullptr) return;
  Claim& claim = claims_.at(lease);
  if (++claim.tries > kMostTries) {
    EndCall(claim);
    claims_.erase(lease);
    return Forget(*wish);
  }
  const bool sent = Call(lease, kReleasePatience, [lease_id = claim.lease_id](Front& front, core::SessionId id) {
    front.Release(id, lease_id);
  });
  if (!sent) PostAfter(milliseconds(200), [this, lease] { TryRelease(lease); });
}

// ---- Answers ----

void DetachedClient::OnCallReleased(int64_t lease, uint64_t call, core::ReleaseOutcome outcome) {
  Claim* claim = Waiting(lease, call);
  Wish* wish = Find(lease);
  if (claim == nullptr || wish == nullptr) return;
  EndCall(*claim);
  claims_.erase(lease);
  OnReleased(*wish, outcome);
}

void DetachedClient::OnCallRefused(int64_t lease, uint64_t call, core::RefusalReason reason) {
  Claim* claim = Waiting(lease, call);
  Wish* wish = Find(lease);
  if (claim == nullptr || wish == nullptr) return;
  const bool passing = reason == core::RefusalReason::kDraining || reason == core::RefusalReason::kStoreUnavailable;
  if (wish->releasing || (wish->stage == Stage::kAsking && passing)) return OnCallFailed(lease, call);
  EndCall(*claim);
  if (wish->stage == Stage::kAsking) {
    claims_.erase(lease);
    return OnRefused(*wish, reason);
  }
  // Of a renewal: not held any more, or not this time.
  if (reason != core::RefusalReason::kNotHolder) return;
  claims_.erase(lease);
  OnEnded(*wish, EndedWhy::kLost, static_cast<int>(core::LostReason::kTaken) + 1);
}

void DetachedClient::OnCallFailed(int64_t lease, uint64_t call) {
  Claim* claim = Waiting(lease, call);
  Wish* wish = Find(lease);
  if (claim == nullptr || wish == nullptr) return;
  EndCall(*claim);
  const Duration pause = env_.dice.Between(milliseconds(1), milliseconds(300));
  if (wish->releasing) return PostAfter(pause, [this, lease] { TryRelease(lease); });
  if (wish->stage == Stage::kAsking) return PostAfter(pause, [this, lease] { Try(lease); });
}

void DetachedClient::Leave() {
  std::vector<int64_t> all;
  for (const auto& [lease, wish] : wishes()) all.push_back(lease);
  for (const int64_t lease : all) GiveUp(*Find(lease));
}

}  // namespace distlock::sim
