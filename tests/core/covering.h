// SPDX-License-Identifier: Apache-2.0
//
// A session that reads a lock under a cover.
#pragma once

#include <algorithm>
#include <vector>

#include "lingering.h"

namespace distlock::core {

inline constexpr uint64_t kReserved = 255;

// Session 1 reads "a" as owner 1, by a grant that others may join.
struct Reading : OneSession {
  Reading() : OneSession(SessionKind::kSession, Lingering()) {
    Do(Read(1));
    const auto ask = Take<StoreAcquire>();
    EXPECT_TRUE(ask.lingers);
    first = Covered(ask);
  }

  Acquire Read(RequestId request, int owner = 0) {
    Acquire in = Want(1, request, "a", owner != 0 ? owner : static_cast<int>(request));
    in.want.mode = Mode::kShared;
    return in;
  }
  Granted Covered(const StoreAcquire& ask) {
    const auto token = static_cast<uint64_t>(StoreNow().us);
    Reply(ask.op, AcquireGranted{token, StoreNow(), {}, token + kReserved});
    return Event<Granted>(1, ask.owner[15]);
  }
  Granted Join(RequestId request) {
    Do(Read(request));
    return Event<Granted>(1, request);
  }
  void Release(RequestId acquire) { Do(core::Release{.session = 1, .request = 100 + acquire, .acquire = acquire}); }
  void Leave(RequestId acquire) {
    Release(acquire);
    EXPECT_EQ(Event<Released>(1, 100 + acquire).outcome, ReleaseOutcome::kReleased);
  }
  void Recall() { Do(RecallNotice{Name("a")}); }
  StoreNote TakeSpread(std::vector<int> owners) {
    auto spread = Take<StoreNote>();
    EXPECT_EQ(spread.readers.size(), owners.size());
    for (size_t i = 0; i < std::min(owners.size(), spread.readers.size()); ++i) {
      EXPECT_EQ(spread.readers[i].owner, Owner(owners[i]));
      if (i > 0) {
        EXPECT_GT(spread.readers[i].token, spread.readers[i - 1].token);
      }
    }
    return spread;
  }
  void Spread(const StoreNote& spread) { Reply(spread.op, NoteDone{.is_noted = true, .next = {}}); }
  size_t Kept() const { return broker.Stats().lingering; }

  Granted first;
};

}  // namespace distlock::core
