// SPDX-License-Identifier: Apache-2.0
//
// A program that takes detached leases by calls, through whichever broker answers: it repeats a request under the same
// request_id, renews and gives back by lease id, and believes from when it sent what was answered.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "world/client_process.h"

namespace distlock::sim {

class DetachedClient : public ClientProcess {
 public:
  DetachedClient(Env& env, int number, Neighbours neighbours)
      : ClientProcess(env, number, "detached client", neighbours) {}

  void Leave() override;

 private:
  class Ears;
  // What is known beyond the wish.
  struct Claim {
    std::string request_id;
    std::string lease_id;
    uint64_t token = 0;  // of a grant that came too late to be believed in: it is renewed first
    int tries = 0;
    uint64_t call = 0;  // the one that is waited for
    WirePtr wire;
    BrokerProcess* broker = nullptr;  // that it went to
    uint64_t life = 0;                // of that broker
    bool again = false;               // asked for anew after its release, at the broker that is at it
    uint64_t released = 0;            // the token of the grant whose release is not confirmed: it is over
  };

  void Ask(Wish& wish) override;
  void GiveUp(Wish& wish) override;
  void GiveBack(Wish& wish) override;
  void Vanish() override { claims_.clear(); }
  bool Checks(Wish& wish) override;
  bool detached() const override { return true; }

  // Sends a call to any broker; false when there is none. `say` runs at the broker. Unanswered, it ends after `patience`.
  bool Call(int64_t id, Duration patience, std::function<void(Front&, core::SessionId)> say);
  void CallAt(BrokerProcess& broker, int64_t id, Duration patience, std::function<void(Front&, core::SessionId)> say);
  void EndCall(Claim& claim);
  void Try(int64_t id);
  void Hold(Wish& wish, uint64_t token, Duration until);
  void Renew(int64_t id);
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
