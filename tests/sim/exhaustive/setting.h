// SPDX-License-Identifier: Apache-2.0
//
// A small system's fixed part, the actions that may happen in it, and its times: long enough apart that each deadline
// of the core is an instant of its own, short enough that few instants lie between. Values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"

namespace distlock::sim {

inline constexpr core::Duration kSmallTtl = std::chrono::seconds(2);
inline constexpr core::Duration kSmallValidity = std::chrono::milliseconds(900);
inline constexpr size_t kClients = 2;

enum class Verb : uint8_t {
  kAcquire,  // of a client
  kRelease,
  kCancel,     // also when the lock has just been granted: the grant crossed it
  kBreak,      // the broker sees the stream end; the client does not, and goes on believing
  kReconnect,  // the client has noticed: believes no more, and has a new stream
  kRun,        // of a broker: the store runs the next command it has sent
  kReply,      // the next reply arrives
  kLose,       // its connection breaks; what was sent and not run may still run, later or never
  kRunLate,    // the next command of the oldest broken connection runs
  kConnect,    // it has a connection again
  kHear,       // the next hand-off notice arrives
  kMiss,       // the next hand-off notice is lost
  kPass,       // time passes to the next instant at which anything is due
  kLeap,       // time passes until a key or a belief ends, or a client is told something; nothing arrives meanwhile
};

struct Action {
  Verb verb = Verb::kPass;
  uint8_t who = 0;  // a client or broker
  friend bool operator==(const Action&, const Action&) = default;
};
using Path = std::vector<Action>;

struct Setting {
  std::string name;
  size_t brokers = 1;                                // client i is a client of broker i % brokers
  std::optional<core::Duration> max_wait[kClients];  // of all acquires of a client; 0: one try
  core::Duration lock_delay{};
  Path start;      // has been gone when the search begins
  int losses = 1;  // of connections to the store, in one path
};

// Such as "acquire 0, run 0, pass"; ReadPath reads it back, nullopt when it is none.
std::string PathText(const Path& path);
std::optional<Path> ReadPath(const std::string& text);

}  // namespace distlock::sim
