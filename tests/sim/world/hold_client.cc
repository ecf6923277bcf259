// SPDX-License-Identifier: Apache-2.0
#include "world/hold_client.h"

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
  const WirePtr wire = Wire::Connect(env_, *this, broker, /*local=*/true);
  streams_[id] = wire;
  wire->on_closed[Wire::kClient] = [this, id] { OnStreamOver(id); };
  wire->Send(Wire::kClient, [&broker, wire, ears = std::make_shared<Ears>(this, id), spec = SpecOf(wish)] {
    broker.front().Hold(broker.front().Accept(wire, ears), spec);
  });
}

void HoldClient::Hear(int64_t id, const core::Event& event) {
  Wish* wish = Find(id);
  if (wish == nullptr) return;
  if (const auto* granted = std::get_if<core::Granted>(&event)) {
    OnGranted(*wish, granted->token);
    return OnBelief(*wish, LocalTime() + granted->valid_for);
  }
  if (const auto* renewed = std::get_if<core::Renewed>(&event)) {
    // Belief that has ended does not come back.
    if (wish->stage == Stage::kHeld && Checks(*wish)) OnBelief(*wish, LocalTime() + renewed->valid_for);
    return;
  }
  if (const auto* refused = std::get_if<core::Refused>(&event)) {
    streams_.erase(id);
    return OnRefused(*wish, refused->reason);
  }
  if (const auto* lost = std::get_if<core::Lost>(&event)) {
    streams_.erase(id);
    return OnEnded(*wish, EndedWhy::kLost, static_cast<int>(lost->reason) + 1);
  }
}

void HoldClient::OnStreamOver(int64_t id) {
  streams_.erase(id);
  Wish* wish = Find(id);
  if (wish == nullptr) return;
  if (wish->stage == Stage::kHeld) return OnEnded(*wish, EndedWhy::kStreamBroke);
  OnRefused(*wish, core::RefusalReason::kStoreUnavailable);
}

bool HoldClient::Checks(Wish& wish) {
  if (!wish.releasing && env_.now() >= wish.until) {
    const int64_t id = wish.id;
    OnEnded(wish, EndedWhy::kDeadline);
    if (streams_.contains(id)) streams_.extract(id).mapped()->Close(Wire::kClient);
    return false;
  }
  return env_.now() < wish.until;
}

// The only way to cancel a Hold is to end its stream.
void HoldClient::GiveUp(Wish& wish) {
  if (streams_.contains(wish.id)) streams_.extract(wish.id).mapped()->Close(Wire::kClient);
  Forget(wish);
}

void HoldClient::GiveBack(Wish& wish) { GiveUp(wish); }

void HoldClient::Leave() {
  std::vector<int64_t> all;
  for (const auto& [id, wish] : wishes()) all.push_back(id);
  for (const int64_t id : all) GiveUp(*Find(id));
}

}  // namespace distlock::sim
