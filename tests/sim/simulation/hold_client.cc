// SPDX-License-Identifier: Apache-2.0
#include "simulation/hold_client.h"

#include <algorithm>

namespace distlock::sim {

class HoldClient::Ears : public Listener {
 public:
  Ears(HoldClient* client, int64_t id, int32_t call) : client_(client), id_(id), call_(call) {}
  void OnHold(const core::Event& event) override { client_->Hear(id_, call_, event); }

 private:
  HoldClient* client_;
  int64_t id_;
  int32_t call_;
};

void HoldClient::Start() {
  requests_ = PrefixOfRequests();
  ClientProcess::Start();
}

void HoldClient::Ask(Wish& wish) {
  const int64_t id = wish.id;
  if (!Home().alive() && GoesOn(wish)) MoveOn();
  BrokerProcess& broker = Home();
  if (!broker.alive()) {
    if (GoesOn(wish)) return AskSoon(id);
    MoveHome();
    return OnRefused(wish, core::RefusalReason::kStoreUnavailable);
  }
  const WirePtr wire = Wire::Connect(env_, *this, broker);
  const int32_t call = calls_++;
  claims_[id] = {.wire = wire, .call = call, .granted_at = LocalTime()};
  wire->on_closed[Wire::kClient] = [this, id, call] { OnStreamOver(id, call); };
  v1::HoldRequest request;
  *request.mutable_lock() = SpecOf(wish);
  if (keeps_place(wish)) request.set_request_id(requests_ + LabelOf(wish));
  request.set_generation(call);
  wire->Send(Wire::kClient, [&broker, wire, ears = std::make_shared<Ears>(this, id, call), request] {
    broker.front().Hold(broker.front().Accept(wire, ears), request);
  });
}

void HoldClient::AskSoon(int64_t id) {
  PostAfter(env_.dice.Between(Duration(0), milliseconds(40)), [this, id] {
    Wish* const wish = Find(id);
    if (wish != nullptr && !claims_.contains(id)) Ask(*wish);
  });
}

// In another stream, before or after the end of the one that it waits in.
void HoldClient::AskElsewhere(Wish& wish) {
  const WirePtr former = claims_.extract(wish.id).mapped().wire;
  Note(wish, {.kind = RecordKind::kMovedOn});
  const bool at_once = env_.dice.Chance(0.5);
  if (at_once) former->Close(Wire::kClient);
  MoveOn();
  Ask(wish);
  if (!at_once) former->Close(Wire::kClient);
}

void HoldClient::Hear(int64_t id, int32_t call, const core::Event& event) {
  Wish* wish = Find(id);
  const auto claim = claims_.find(id);
  if (wish == nullptr || claim == claims_.end() || claim->second.call != call) return;
  if (std::holds_alternative<core::Queued>(event)) {
    if (GoesOn(*wish) && env_.acting && env_.dice.Chance(0.1)) AskElsewhere(*wish);
    return;
  }
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
    if (refused->reason == core::RefusalReason::kDraining && GoesOn(*wish)) return AskElsewhere(*wish);
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

void HoldClient::OnStreamOver(int64_t id, int32_t call) {
  const auto claim = claims_.find(id);
  if (claim == claims_.end() || claim->second.call != call) return;
  claims_.erase(claim);
  Wish* wish = Find(id);
  if (wish == nullptr) return;
  if (GoesOn(*wish)) return AskSoon(id);
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
