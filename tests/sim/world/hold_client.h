// SPDX-License-Identifier: Apache-2.0
//
// A program that takes its locks by Hold streams, without the library. It counts its belief as
// proto/distlock/v1/session.md says, and gives a lock back by ending the stream.
#pragma once

#include <map>

#include "world/client_process.h"

namespace distlock::sim {

class HoldClient : public ClientProcess {
 public:
  HoldClient(Env& env, int number, Neighbours neighbours) : ClientProcess(env, number, "hold client", neighbours) {}

  void Leave() override;

 private:
  class Ears;
  struct Claim {
    WirePtr wire;
    Duration granted_at{};  // the estimate, by this client's clock; until the grant: when the request was sent
  };

  void Ask(Wish& wish) override;
  void GiveUp(Wish& wish) override;
  void GiveBack(Wish& wish) override;
  void Vanish() override { claims_.clear(); }
  bool Checks(Wish& wish) override;

  void Hear(int64_t id, const core::Event& event);
  void Believe(Wish& wish, Duration since_granted, Duration valid_for);
  Duration DeadlineOf(const Wish& wish, Duration since_granted, Duration valid_for);
  void AskAfresh(Wish& wish);
  void OnStreamOver(int64_t id);

  std::map<int64_t, Claim> claims_;  // by wish
};

}  // namespace distlock::sim
