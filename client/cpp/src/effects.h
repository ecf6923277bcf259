// SPDX-License-Identifier: Apache-2.0
//
// What a change of the lock table has the program hear, in order. Collected under the Core's mutex and run when that is
// free again, because it is the program's code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

#include "awaited.h"
#include "distlock/callback.h"

namespace distlock::internal {

class Effects {
 public:
  enum class By : uint8_t {
    kAnybody,   // only wakes a caller that waits
    kGiver,     // stops tokens: the thread that gives the lock back; at any other end of a lock one of the library
    kLibrary,   // a thread of the library
    kExecutor,  // ClientOptions::executor, or a thread of the library
  };
  struct Effect {
    By by;
    Callback<void()> run;
  };

  void Add(By by, Callback<void()> run) { effects_.push_back({by, std::move(run)}); }

  template <class T>
  void Answer(Callback<void(T)> callback, std::type_identity_t<T> answer) {
    if (!callback) return;
    const By by = Awaited<T>::Has(callback) ? By::kAnybody : By::kLibrary;
    Add(by, [callback = std::move(callback), answer = std::move(answer)]() mutable { callback(std::move(answer)); });
  }

  // Takes out those for which `leaves(by)` is true.
  template <class Leaves>
  Effects Extract(Leaves leaves) {
    const auto first = std::stable_partition(effects_.begin(), effects_.end(),
                                             [&](const Effect& effect) { return !leaves(effect.by); });
    Effects out;
    out.effects_.assign(std::make_move_iterator(first), std::make_move_iterator(effects_.end()));
    effects_.erase(first, effects_.end());
    return out;
  }

  void Append(Effects later) { std::move(later.effects_.begin(), later.effects_.end(), std::back_inserter(effects_)); }

  bool empty() const { return effects_.empty(); }
  auto begin() { return effects_.begin(); }
  auto end() { return effects_.end(); }

 private:
  std::vector<Effect> effects_;
};

}  // namespace distlock::internal
