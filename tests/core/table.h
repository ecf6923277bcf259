// SPDX-License-Identifier: Apache-2.0
//
// A table to play a broker core at: virtual time, inputs by hand, and the effects sorted by who gets them. The store is
// whoever calls Reply().
#pragma once

#include <string>
#include <vector>

#include "core/broker.h"
#include "gtest/gtest.h"

namespace distlock::core {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

OwnerId Owner(int n);
LockName Name(const std::string& key);

class Table {
 public:
  // `start`: the age of the machine.
  explicit Table(BrokerConfig config = {}, Instant start = Instant(hours(100)));

  // Each runs one Step at `now` and keeps its effects until they are taken.
  void Do(Input input);
  void Pass(Duration time);  // runs every deadline on the way at its own instant

  void StoreComesUp();
  // A stamp of a store whose clock is `kStoreOffset` ahead.
  StoreTime StoreNow() const;
  void Reply(OpId op, decltype(StoreReply::outcome) outcome);

  // The next command of this kind; fails the test when there is none.
  template <typename T>
  T Take() {
    for (size_t i = 0; i < commands.size(); ++i) {
      if (auto* found = std::get_if<T>(&commands[i])) {
        T taken = std::move(*found);
        commands.erase(commands.begin() + static_cast<std::ptrdiff_t>(i));
        return taken;
      }
    }
    ADD_FAILURE() << "no such store command";
    return T{};
  }
  template <typename T>
  size_t Count() const {
    size_t n = 0;
    for (const auto& command : commands) n += std::holds_alternative<T>(command);
    return n;
  }
  // The next event of this kind for a recipient; fails the test when there is none.
  template <typename T>
  T Event(SessionId session, RequestId request) {
    for (size_t i = 0; i < notes.size(); ++i) {
      auto* found = std::get_if<T>(&notes[i].event);
      if (notes[i].session == session && notes[i].request == request && found != nullptr) {
        T taken = std::move(*found);
        notes.erase(notes.begin() + static_cast<std::ptrdiff_t>(i));
        return taken;
      }
    }
    ADD_FAILURE() << "no such event for " << session << "/" << request;
    return T{};
  }
  template <typename T>
  size_t Events() const {
    size_t n = 0;
    for (const auto& note : notes) n += std::holds_alternative<T>(note.event);
    return n;
  }

  // The next acquire is granted, or gets a place in the queue behind owner 99, who has it for `left`.
  StoreAcquire GrantNext(uint64_t token);
  StoreAcquire QueueNext(Duration left = hours(1));

  // Shorthands.
  Acquire Want(SessionId session, RequestId request, const std::string& key, int owner);
  Acquire WantDetached(SessionId session, RequestId request, const std::string& key, int owner);
  void Open(SessionId session, SessionKind kind = SessionKind::kSession);
  // Open session, acquired and granted at once; returns the grant.
  Granted Hold(SessionId session, RequestId request, const std::string& key, int owner);

  Instant now;
  Broker broker;
  std::vector<StoreCommand> commands;
  std::vector<Notify> notes;
  std::vector<Fact> facts;
  int drains = 0;
  bool is_any_meant = false;  // a caller names no grant (token 0), so neither does what the store is sent for it
  uint64_t next_token = 1000;
};

// A table at which the store is connected and session 1 is open.
struct OneSession : Table {
  explicit OneSession(SessionKind kind = SessionKind::kSession, BrokerConfig config = {},
                      Instant start = Instant(hours(100)))
      : Table(config, start) {
    StoreComesUp();
    Open(1, kind);
  }
};

inline constexpr Duration kStoreOffset = hours(400'000);
inline constexpr Duration kT = seconds(15);
inline constexpr Duration kV = seconds(3);
inline constexpr Duration kMargin = milliseconds(17);  // 0.1 % of T + 2 ms
// A promise as a client is told it: 0.1 % less, for the drift of two clocks.
constexpr Duration Told(Duration promise) { return promise - promise / 1'000'000 * 1000 - kDriftRounding; }

}  // namespace distlock::core
