// SPDX-License-Identifier: Apache-2.0
//
// A program that takes detached leases by calls, through any broker: it repeats a request under the same request_id,
// renews and releases by lease id, and counts promises from when it sent the request.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "simulation/client_process.h"

namespace distlock::sim {

class DetachedClient : public ClientProcess {
 public:
  DetachedClient(Env& env, int number, Neighbours neighbours)
      : ClientProcess(env, number, "detached client", neighbours) {}

  void Leave() override;

 private:
  class Ears;
  // The state of a wish beyond Wish.
  struct Claim {
    std::string request_id;
    std::string lease_id;
    uint64_t token = 0;  // of a grant that came after its deadline: it must be renewed first
    int tries = 0;
    uint64_t call = 0;  // the call in flight
    WirePtr wire;
    BrokerProcess* broker = nullptr;  // the broker of that call
    uint64_t life = 0;                // that broker's life
    bool again = false;               // requested anew after its release, at the broker that works on the release
    uint64_t released = 0;            // the token of a grant whose release is not confirmed: that grant has ended
  };

  void Ask(Wish& wish) override;
  void GiveUp(Wish& wish) override;
  void GiveBack(Wish& wish) override;
  void Vanish() override { claims_.clear(); }
  bool Checks(Wish& wish) override;
  bool detached() const override { return true; }

  // Sends a call to any live broker; false when there is none. `say` runs at the broker. The call ends after `patience`
  // without an answer.
  bool Call(int64_t id, Duration patience, std::function<void(Front&, core::SessionId)> say);
  void CallAt(BrokerProcess& broker, int64_t id, Duration patience, std::function<void(Front&, core::SessionId)> say);
  void EndCall(Claim& claim);
  void Try(int64_t id);
  void Hold(Wish& wish, uint64_t token, Duration until);
  void Renew(int64_t id);
  // Repeats the request of a lock that it has, through any broker, and may not wait for the answer.
  void RepeatWhileHeld(int64_t id);
  void TryRelease(int64_t id);
  void AskAgain(Wish& wish);
  void AskElsewhere(Wish& wish);
  void BecomeAsking(Wish& wish);
  void OnGrant(int64_t id, uint64_t call, Duration sent, const v1::Grant& grant);
  void OnRenewed(int64_t id, uint64_t call, Duration sent, Duration valid_for);
  void OnCallRefused(int64_t id, uint64_t call, core::RefusalReason reason);
  void OnCallReleased(int64_t id, uint64_t call, core::ReleaseOutcome outcome);
  void OnCallFailed(int64_t id, uint64_t call);
  Claim* Waiting(int64_t id, uint64_t call);

  uint64_t calls_ = 0;
  std::map<int64_t, Claim> claims_;
};

}  // namespace distlock::sim
