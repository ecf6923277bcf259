// SPDX-License-Identifier: Apache-2.0
//
// A program that takes its locks by Hold streams, without the library. It counts its belief as
// proto/distlock/v1/session.md says, and gives a lock back by ending the stream. Half of its waits have a request_id:
// when the stream ends before the grant, and now and then while it lives, the wait goes on in another stream.
#pragma once

#include <map>
#include <string>

#include "simulation/client_process.h"

namespace distlock::sim {

class HoldClient : public ClientProcess {
 public:
  HoldClient(Env& env, int number, Neighbours neighbours) : ClientProcess(env, number, "hold client", neighbours) {}

  void Start() override;
  void Leave() override;

 private:
  class Ears;
  struct Claim {
    WirePtr wire;
    int32_t call = 0;       // of this client's; what earlier ones of the same wish hear is not heeded
    Duration granted_at{};  // the estimate, by this client's clock; until the grant: when the request was sent
  };

  void Ask(Wish& wish) override;
  void GiveUp(Wish& wish) override;
  void GiveBack(Wish& wish) override;
  void Vanish() override { claims_.clear(); }
  bool Checks(Wish& wish) override;

  bool keeps_place(const Wish& wish) const override { return wish.id % 2 == 0; }
  bool GoesOn(const Wish& wish) const { return wish.stage == Stage::kAsking && keeps_place(wish) && KeepsPlace(wish); }
  void Hear(int64_t id, int32_t call, const core::Event& event);
  void AskElsewhere(Wish& wish);
  void AskSoon(int64_t id);
  void Believe(Wish& wish, Duration since_granted, Duration valid_for);
  Duration DeadlineOf(const Wish& wish, Duration since_granted, Duration valid_for);
  void AskAfresh(Wish& wish);
  void OnStreamOver(int64_t id, int32_t call);

  std::map<int64_t, Claim> claims_;  // by wish
  std::string requests_;             // the request_ids begin so
  int32_t calls_ = 0;
};

}  // namespace distlock::sim
