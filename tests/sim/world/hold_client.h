// SPDX-License-Identifier: Apache-2.0
//
// A program that takes its locks by Hold streams, without the library: it believes for `valid_for` from when the
// message arrives, as the contract says. Therefore it runs on its broker's machine.
#pragma once

#include <map>

#include "world/client_process.h"

namespace distlock::sim {

class HoldClient : public ClientProcess {
 public:
  HoldClient(Env& env, int number, Neighbours neighbours) : ClientProcess(env, number, "hold client", neighbours) {}

  void Leave() override;
  bool may_pause() const override { return false; }

 private:
  class Ears;

  void Ask(Wish& wish) override;
  void GiveUp(Wish& wish) override;
  void GiveBack(Wish& wish) override;
  void Vanish() override { streams_.clear(); }
  bool Checks(Wish& wish) override;

  void Hear(int64_t id, const core::Event& event);
  void OnStreamOver(int64_t id);

  std::map<int64_t, WirePtr> streams_;
};

}  // namespace distlock::sim
