// SPDX-License-Identifier: Apache-2.0
#include "world/hold_client.h"

#include <algorithm>

namespace distlock::sim {

class HoldClient::Ears : public Listener {
 public:
  Ears(HoldClient* client, int64_t id) : client_(client), id_(id) {}
  void OnHold(const core::Event& event) override { client_->Hear(id_, event); }

 private:
  HoldClient* client_;
  int64_t id_;
};

void HoldClient::Ask(Wish& wish) {
  const int64_t id = wish.id;
  BrokerProcess& broker = Home();
  if (!broker.alive()) {
    MoveHome();
    return OnRefused(wish, core::RefusalReason::kStoreUnavailable);
  }
  const WirePtr wire = Wire::Connect(env_, *this, broker);
  claims_[id] = {.wire = wire, .granted_at = LocalTime()};
  wire->on_closed[Wire::kClient] = [this, id] { OnStreamOver(id); };
  wire->Send(Wire::kClient, [&broker, wire, ears = std::make_shared<Ears>(this, id), spec = SpecOf(wish)] {
    broker.front().Hold(broker.front().Accept(wire, ears), spec);
  });
}

void HoldClient::Hear(int64_t id, const core::Event& event) {
  Wish* wish = Find(id);
  if (wish == nullptr) return;
  if (const auto* granted = std::get_if<core::Granted>(&event)) {
    claims_.at(id).granted_at += granted->waited;
    const Duration until = DeadlineOf(*wish, granted->since_granted.value(), granted->valid_for);
    if (until - LocalTime() < granted->valid_for * 3 / 4) return AskAfresh(*wish);
    OnGranted(*wish, granted->token);
    return OnBelief(*wish, until);
  }
  if (const auto* renewed = std::get_if<core::Renewed>(&event)) {
    return Believe(*wish, renewed->since_granted, renewed->valid_for);
  }
  if (const auto* at_risk = std::get_if<core::AtRisk>(&event)) {
    return Believe(*wish, at_risk->since_granted, at_risk->valid_for);
  }
  if (const auto* refused = std::get_if<core::Refused>(&event)) {
    claims_.erase(id);
    return OnRefused(*wish, refused->reason);
  }
  if (const auto* lost = std::get_if<core::Lost>(&event)) {
    claims_.erase(id);
    return OnEnded(*wish, EndedWhy::kLost, static_cast<int>(lost->reason) + 1);
  }
}

Duration HoldClient::DeadlineOf(const Wish& wish, Duration since_granted, Duration valid_for) {
  Claim& claim = claims_.at(wish.id);
  claim.granted_at = std::min(claim.granted_at, LocalTime() - since_granted);
  return claim.granted_at + since_granted + valid_for;
}

// The request was under way for long, and no later message can tell better when the grant was.
void HoldClient::AskAfresh(Wish& wish) {
  claims_.extract(wish.id).mapped().wire->Close(Wire::kClient);
  AskAnew(wish);
  Ask(wish);
}

// Belief that has ended does not come back.
void HoldClient::Believe(Wish& wish, Duration since_granted, Duration valid_for) {
  const Duration until = DeadlineOf(wish, since_granted, valid_for);
  if (Checks(wish)) OnBelief(wish, std::max(until, Duration(0)));
}

void HoldClient::OnStreamOver(int64_t id) {
  claims_.erase(id);
  Wish* wish = Find(id);
  if (wish == nullptr) return;
  if (wish->stage == Stage::kHeld) return OnEnded(*wish, EndedWhy::kStreamBroke);
  OnRefused(*wish, core::RefusalReason::kStoreUnavailable);
}

bool HoldClient::Checks(Wish& wish) {
  if (!wish.releasing && env_.now() >= wish.until) {
    const int64_t id = wish.id;
    OnEnded(wish, EndedWhy::kDeadline);
    if (claims_.contains(id)) claims_.extract(id).mapped().wire->Close(Wire::kClient);
    return false;
  }
  return env_.now() < wish.until;
}

// The only way to cancel a Hold is to end its stream.
void HoldClient::GiveUp(Wish& wish) {
  if (claims_.contains(wish.id)) claims_.extract(wish.id).mapped().wire->Close(Wire::kClient);
  Forget(wish);
}

void HoldClient::GiveBack(Wish& wish) { GiveUp(wish); }

void HoldClient::Leave() {
  std::vector<int64_t> all;
  for (const auto& [id, wish] : wishes()) all.push_back(id);
  for (const int64_t id : all) GiveUp(*Find(id));
}

}  // namespace distlock::sim
