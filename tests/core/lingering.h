// SPDX-License-Identifier: Apache-2.0
//
// A session at a broker that keeps locks after their release.
#pragma once

#include "table.h"

namespace distlock::core {

inline constexpr Duration kLinger = milliseconds(50);

inline BrokerConfig Lingering() {
  BrokerConfig config;
  config.linger = kLinger;
  config.covers = true;
  return config;
}

// Session 1 has the lock "a" as owner 2, by a grant that may be kept: the second in a row.
struct Lone : OneSession {
  Lone() : OneSession(SessionKind::kSession, Lingering()) {
    Do(Want(1, 1, "a", 1));
    EXPECT_FALSE(Grant().lingers) << "the first one is as ever";
    Release(1);
    Reply(Take<StoreRelease>().op, GiveBackDone{.was_holder = true, .next = {}});
    Event<Released>(1, 101);
    Do(Want(1, 2, "a", 2));
    EXPECT_TRUE(Grant().lingers);
    EXPECT_EQ(commands.size(), 0u);
  }

  // As a store does: the token is its time.
  StoreAcquire Grant() {
    auto ask = Take<StoreAcquire>();
    Reply(ask.op, AcquireGranted{static_cast<uint64_t>(StoreNow().us), StoreNow()});
    grant = Event<Granted>(1, ask.owner[15]);
    Pass(milliseconds(1));
    return ask;
  }
  void Release(RequestId acquire) { Do(core::Release{.session = 1, .request = 100 + acquire, .acquire = acquire}); }
  // Request 3 of owner 3 is granted the lock that lingers.
  Granted Again(RequestId request = 3) {
    Pass(milliseconds(1));
    Do(Want(1, request, "a", static_cast<int>(request)));
    return Event<Granted>(1, request);
  }
  void Noted(const StoreNote& note, uint32_t queue_length = 0) {
    Reply(note.op, NoteDone{.is_noted = true, .queue_length = queue_length, .next = {}});
  }
  void Recall() { Do(RecallNotice{Name("a")}); }
  // What leaves for the store next is the release of this owner.
  void ExpectRelease(int owner) {
    const auto release = Take<StoreRelease>();
    EXPECT_EQ(release.owner, Owner(owner));
    Reply(release.op, GiveBackDone{.was_holder = true, .next = {}});
    EXPECT_EQ(broker.Stats().lingering + broker.Stats().pending_releases, 0u);
  }

  Granted grant;
};

}  // namespace distlock::core
