// SPDX-License-Identifier: Apache-2.0
//
// A context for one part of a broker core without the others: virtual time, and the effects of what the part does.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "core/core_context.h"
#include "core/part.h"
#include "table.h"

namespace distlock::core {

// To which records belong that no other part has.
struct NoPart final : Part {
  void OnDue(PartRecord&) override {}
  void OnReply(const Op&, OpId, StoreReply&) override {}
  size_t Check() const override { return 0; }
};

class Alone {
 public:
  explicit Alone(const BrokerConfig& config = {}) : core(config) {
    core.BeginStep(now, effects_);
    core.store_up = true;
  }

  void Pass(Duration time) {
    now += time;
    core.BeginStep(now, effects_);
  }

  // The effects of one kind since the last call, in order.
  template <typename T>
  std::vector<T> Take() {
    std::vector<T> taken;
    std::vector<Effect> left;
    for (Effect& effect : effects_) {
      if (T* const found = Find<T>(effect)) {
        taken.push_back(std::move(*found));
      } else {
        left.push_back(std::move(effect));
      }
    }
    effects_ = std::move(left);
    return taken;
  }

  // Takes the record whose deadline is due; null: none is.
  Timed* PopDue() { return core.timers.PopDue(now); }

  Instant now = Instant(hours(100));
  CoreContext core;
  NoPart none;

 private:
  template <typename T>
  static T* Find(Effect& effect) {
    if constexpr (std::is_same_v<T, Notify> || std::is_same_v<T, Fact>) {
      return std::get_if<T>(&effect);
    } else {
      auto* const command = std::get_if<StoreCommand>(&effect);
      return command == nullptr ? nullptr : std::get_if<T>(command);
    }
  }

  std::vector<Effect> effects_;
};

}  // namespace distlock::core
