// SPDX-License-Identifier: Apache-2.0
#include "simulation/detached_client.h"

namespace distlock::sim {
namespace {

constexpr int kMostTries = 8;
constexpr Duration kReleasePatience = seconds(2);
constexpr double kRepeatsWhileHeld = 0.2;

Duration ToDuration(const google::protobuf::Duration& proto) {
  return seconds(proto.seconds()) + std::chrono::nanoseconds(proto.nanos());
}

}  // namespace

class DetachedClient::Ears : public Listener {
 public:
  Ears(DetachedClient* client, int64_t id, uint64_t call, Duration sent)
      : client_(client), id_(id), call_(call), sent_(sent) {}
  void OnGrant(const v1::Grant& grant) override { client_->OnGrant(id_, call_, sent_, grant); }
  void OnRenewed(Duration valid_for) override { client_->OnRenewed(id_, call_, sent_, valid_for); }
  void OnReleased(core::ReleaseOutcome outcome) override { client_->OnCallReleased(id_, call_, outcome); }
  void OnRefused(core::RefusalReason reason) override { client_->OnCallRefused(id_, call_, reason); }

 private:
  DetachedClient* client_;
  int64_t id_;
  uint64_t call_;
  Duration sent_;
};

bool DetachedClient::Call(int64_t id, Duration patience, std::function<void(Front&, core::SessionId)> say) {
  EndCall(claims_.at(id));
  BrokerProcess* broker = LiveBroker();
  if (broker == nullptr) return false;
  CallAt(*broker, id, patience, std::move(say));
  return true;
}

void DetachedClient::CallAt(BrokerProcess& broker, int64_t id, Duration patience,
                            std::function<void(Front&, core::SessionId)> say) {
  Claim& claim = claims_.at(id);
  const uint64_t call = claim.call = ++calls_;
  claim.broker = &broker;
  claim.life = broker.life();
  const WirePtr wire = claim.wire = Wire::Connect(env_, *this, broker);
  auto ears = std::make_shared<Ears>(this, id, call, LocalTime());
  wire->on_closed[Wire::kClient] = [this, id, call] { OnCallFailed(id, call); };
  wire->Send(Wire::kClient,
             [&broker, wire, ears, say = std::move(say)] { say(broker.front(), broker.front().Accept(wire, ears)); });
  PostAfter(patience, [this, id, call] { OnCallFailed(id, call); });
}

void DetachedClient::EndCall(Claim& claim) {
  claim.call = 0;
  if (claim.wire != nullptr) std::exchange(claim.wire, nullptr)->Close(Wire::kClient);
}

DetachedClient::Claim* DetachedClient::Waiting(int64_t id, uint64_t call) {
  const auto found = claims_.find(id);
  return found == claims_.end() || found->second.call != call ? nullptr : &found->second;
}

// ---- Requests ----

void DetachedClient::Ask(Wish& wish) {
  Claim claim;
  if (env_.dice.Chance(0.8))
    claim.request_id = "request-of-lease-" + std::to_string(wish.lease) + "-" + std::to_string(actor());
  claims_[wish.id] = std::move(claim);
  Try(wish.id);
}

void DetachedClient::Try(int64_t id) {
  Wish* wish = Find(id);
  if (wish == nullptr || wish->stage != Stage::kAsking) return;
  Claim& claim = claims_.at(id);
  const bool more = claim.tries == 0 || (!claim.request_id.empty() && !claim.again);
  if (++claim.tries > kMostTries || !more) {
    EndCall(claim);
    claims_.erase(id);
    return OnRefused(*wish, core::RefusalReason::kStoreUnavailable);
  }
  // A caller without an answer repeats the request at another broker. When it leaves early, no broker has failed it.
  const bool leaves_early = env_.dice.Chance(0.3) && !claim.request_id.empty();
  const Duration patience = leaves_early ? env_.dice.Between(milliseconds(5), seconds(1)) : seconds(200);
  if (leaves_early) --claim.tries;
  const bool sent =
      Call(id, patience, [spec = SpecOf(*wish), request_id = claim.request_id](Front& front, core::SessionId call) {
        front.Acquire(call, spec, request_id);
      });
  if (!sent) PostAfter(milliseconds(200), [this, id] { Try(id); });
}

void DetachedClient::OnGrant(int64_t id, uint64_t call, Duration sent, const v1::Grant& grant) {
  Claim* claim = Waiting(id, call);
  Wish* wish = Find(id);
  if (claim == nullptr || wish == nullptr || wish->releasing) return;
  const auto token = static_cast<uint64_t>(grant.fencing_token());
  if (token <= claim->released) return GiveUp(*wish);
  EndCall(*claim);
  claim->lease_id = grant.lease_id();
  const Duration until = sent + ToDuration(grant.waited()) + ToDuration(grant.valid_for());
  if (wish->stage == Stage::kHeld && token != wish->token) {
    // Somebody has ended the grant that it had. The new one, which nobody wants, goes back.
    wish->releasing = true;
    if (Checks(*wish)) OnEnded(*wish, EndedWhy::kReleasing);
    return GiveBack(*wish);
  }
  if (wish->stage == Stage::kHeld) {
    if (Checks(*wish) && until > LocalTime()) OnBelief(*wish, until);
    return;
  }
  if (until > LocalTime()) return Hold(*wish, token, until);
  claim->token = token;
  const auto renew = [lease_id = claim->lease_id](Front& front, core::SessionId at) { front.Renew(at, lease_id); };
  if (!Call(id, wish->ttl, renew)) PostAfter(milliseconds(200), [this, id] { Try(id); });
}

void DetachedClient::Hold(Wish& wish, uint64_t token, Duration until) {
  const int64_t id = wish.id;
  OnGranted(wish, token, until - LocalTime());
  OnBelief(wish, until);
  if (wish.renewed) PostAfter((until - LocalTime()) / 3, [this, id] { Renew(id); });
  if (!claims_.at(id).request_id.empty() && env_.dice.Chance(kRepeatsWhileHeld)) {
    PostAfter(env_.dice.Between(milliseconds(0), until - LocalTime()), [this, id] { RepeatWhileHeld(id); });
  }
}

void DetachedClient::RepeatWhileHeld(int64_t id) {
  Wish* wish = Find(id);
  if (wish == nullptr || wish->stage != Stage::kHeld || wish->releasing || !Checks(*wish)) return;
  const Claim& claim = claims_.at(id);
  if (claim.call != 0) return;
  env_.Log([&] { return name() + " repeats the request of " + LabelOf(*wish); });
  Call(id, env_.dice.Between(milliseconds(5), seconds(1)),
       [spec = SpecOf(*wish), request_id = claim.request_id](Front& front, core::SessionId call) {
         front.Acquire(call, spec, request_id);
       });
}

void DetachedClient::GiveUp(Wish& wish) {
  EndCall(claims_.at(wish.id));
  claims_.erase(wish.id);
  Forget(wish);
}

// ---- Holding ----

void DetachedClient::Renew(int64_t id) {
  Wish* wish = Find(id);
  if (wish == nullptr || wish->stage != Stage::kHeld || wish->releasing || !Checks(*wish)) return;
  const Duration left = wish->until - env_.now();
  PostAfter(left / 3 + milliseconds(1), [this, id] { Renew(id); });
  Call(id, left,
       [lease_id = claims_.at(id).lease_id](Front& front, core::SessionId call) { front.Renew(call, lease_id); });
}

void DetachedClient::OnRenewed(int64_t id, uint64_t call, Duration sent, Duration valid_for) {
  Claim* claim = Waiting(id, call);
  Wish* wish = Find(id);
  if (claim == nullptr || wish == nullptr || wish->releasing) return;
  if (wish->stage == Stage::kAsking && sent + valid_for > LocalTime()) {
    EndCall(*claim);
    return Hold(*wish, claim->token, sent + valid_for);
  }
  if (wish->stage == Stage::kAsking || !Checks(*wish)) return;
  EndCall(*claim);
  OnBelief(*wish, std::max(sent + valid_for, Duration(0)));
}

bool DetachedClient::Checks(Wish& wish) {
  if (!wish.releasing && env_.now() >= wish.until) {
    EndCall(claims_.at(wish.id));
    claims_.erase(wish.id);
    OnEnded(wish, EndedWhy::kDeadline);
    return false;
  }
  return env_.now() < wish.until;
}

void DetachedClient::GiveBack(Wish& wish) {
  claims_.at(wish.id).tries = 0;
  TryRelease(wish.id);
}

void DetachedClient::TryRelease(int64_t id) {
  Wish* wish = Find(id);
  if (wish == nullptr) return;
  Claim& claim = claims_.at(id);
  if (++claim.tries > kMostTries) {
    EndCall(claim);
    claims_.erase(id);
    return Forget(*wish);
  }
  const bool sent = Call(id, kReleasePatience, [lease_id = claim.lease_id](Front& front, core::SessionId call) {
    front.Release(call, lease_id);
  });
  if (!sent) PostAfter(milliseconds(200), [this, id] { TryRelease(id); });
}

void DetachedClient::BecomeAsking(Wish& wish) {
  wish.stage = Stage::kAsking;
  wish.releasing = false;
  wish.until = {};
  env_.Log([&] { return name() + " asks again for " + LabelOf(wish); });
}

// The release of the earlier grant is not confirmed yet. The broker that works on it grants the same request anew
// afterwards. Another broker, or one that was restarted, might still see the grant that is being released; so may this
// one when its store has forgotten the release.
void DetachedClient::AskAgain(Wish& wish) {
  Claim& claim = claims_.at(wish.id);
  EndCall(claim);
  claim.again = true;
  if (env_.temper.forgets) claim.released = wish.token;
  BecomeAsking(wish);
  CallAt(*claim.broker, wish.id, seconds(200),
         [spec = SpecOf(wish), request_id = claim.request_id](Front& front, core::SessionId call) {
           front.Acquire(call, spec, request_id);
         });
}

// At any broker: a token greater than the old one proves that the grant is not the one that is being released.
void DetachedClient::AskElsewhere(Wish& wish) {
  Claim& claim = claims_.at(wish.id);
  EndCall(claim);
  claim.released = wish.token;
  claim.tries = 0;
  BecomeAsking(wish);
  Try(wish.id);
}

// ---- Answers ----

void DetachedClient::OnCallReleased(int64_t id, uint64_t call, core::ReleaseOutcome outcome) {
  Claim* claim = Waiting(id, call);
  Wish* wish = Find(id);
  if (claim == nullptr || wish == nullptr) return;
  EndCall(*claim);
  claims_.erase(id);
  OnReleased(*wish, outcome);
}

void DetachedClient::OnCallRefused(int64_t id, uint64_t call, core::RefusalReason reason) {
  Claim* claim = Waiting(id, call);
  Wish* wish = Find(id);
  if (claim == nullptr || wish == nullptr) return;
  const bool unconfirmed = wish->releasing && reason == core::RefusalReason::kStoreUnavailable;
  const bool same_broker = claim->broker->alive() && claim->broker->life() == claim->life;
  if (unconfirmed && same_broker && !claim->request_id.empty() && env_.acting) return AskAgain(*wish);
  const bool passing = reason == core::RefusalReason::kDraining || reason == core::RefusalReason::kStoreUnavailable;
  if (wish->releasing || (wish->stage == Stage::kAsking && passing)) return OnCallFailed(id, call);
  EndCall(*claim);
  if (wish->stage == Stage::kAsking) {
    claims_.erase(id);
    return OnRefused(*wish, reason);
  }
  // The refusal of a renewal. Only NOT_HOLDER ends the lease; otherwise the client tries again.
  if (reason != core::RefusalReason::kNotHolder) return;
  claims_.erase(id);
  OnEnded(*wish, EndedWhy::kLost, static_cast<int>(core::LostReason::kTaken) + 1);
}

void DetachedClient::OnCallFailed(int64_t id, uint64_t call) {
  Claim* claim = Waiting(id, call);
  Wish* wish = Find(id);
  if (claim == nullptr || wish == nullptr) return;
  EndCall(*claim);
  const Duration pause = env_.dice.Between(milliseconds(1), milliseconds(300));
  if (wish->releasing) {
    if (!claim->request_id.empty() && env_.acting && env_.dice.Chance(0.5)) {
      return PostAfter(pause, [this, id] {
        if (Wish* same = Find(id); same != nullptr && same->releasing) AskElsewhere(*same);
      });
    }
    return PostAfter(pause, [this, id] { TryRelease(id); });
  }
  if (wish->stage == Stage::kAsking) return PostAfter(pause, [this, id] { Try(id); });
}

void DetachedClient::Leave() {
  std::vector<int64_t> all;
  for (const auto& [id, wish] : wishes()) all.push_back(id);
  for (const int64_t id : all) GiveUp(*Find(id));
}

}  // namespace distlock::sim
