// SPDX-License-Identifier: Apache-2.0
//
// A session with a broker, or the place for the next one: its state, the commands that the broker has not been sent,
// and who hears the answers to those that it has. Pure; guarded by the mutex of the Engine.
//
// A message is below the broker's limit, which is wire::kMostMessageBytes until the broker has told its own. Commands
// that the broker has had no event for yet are counted: it says how many it takes. The others wait, in their order.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "belief.h"
#include "distlock/guard.h"
#include "distlock/v1/lock_service.pb.h"
#include "distlock/wire/limits.h"
#include "effects.h"

namespace distlock::internal {

inline constexpr size_t kCommandBytes = 64;            // of a command without texts, or of what is around a lock
inline constexpr int64_t kShortestPause = 10'000'000;  // between two heartbeats, or two looks at what is due

// The answer to a command. When nothing of it is set, the command was carried out.
struct Answer {
  const v1::Grant* grant = nullptr;
  std::optional<Refusal> refusal;
  ReleaseOutcome outcome = ReleaseOutcome::kUnknown;
  bool broken = false;  // the stream ended first: there will be no answer
};

struct Link {
  using Heard = Callback<void(const Answer&, int64_t now_ns, Effects& fx)>;
  // Fills in a command, when it leaves.
  using Write = Callback<void(v1::SessionCommand& command)>;

  SessionBelief session;
  bool streaming = false;
  bool opened = false;
  bool adopts = false;         // the broker has told that it can
  bool authenticates = false;  // the same, of new proofs
  bool draining = false;
  bool leaving = false;  // goodbye is said; new acquires wait for the next stream
  bool heartbeat_due = false;
  int64_t validity_ns = 0;
  int64_t interval_ns = kNever;
  int64_t heartbeat_at_ns = kNever;
  int64_t drained_at_ns = kNever;
  std::string store;                 // the id of the broker's store; "": not known
  std::optional<std::string> shown;  // the last proof that the broker was shown, and has not refused
  size_t message_bytes = wire::kMostMessageBytes;
  size_t most_ahead = 256;
  absl::flat_hash_map<int64_t, Heard> asked;  // by the ids of the commands; acquires are not among them

  // A session begins; the broker has `grace_ns` to answer its Open.
  void Begin(int64_t now_ns, int64_t grace_ns);
  void OnOpened(const v1::SessionOpened& with, int64_t now_ns);
  // The stream is gone, and all that was asked through it has no answer.
  void End(const std::string& why, int64_t now_ns, Effects& fx);
  // The broker has not been heard for too long: the stream must be ended.
  bool IsLapsed(int64_t now_ns) const { return streaming && session.Lapsed(now_ns); }

  // Whether commands may be added.
  bool usable() const { return streaming && !leaving; }
  // Has a command sent. `id`: 0 for one without. `bytes`: how many it takes at most. Nothing follows the goodbye.
  void Add(int64_t id, Write write, size_t bytes = kCommandBytes);
  // The same, for a command whose answer `heard` gets.
  void Ask(int64_t id, Write write, Heard heard, size_t bytes = kCommandBytes);
  // False: nothing was asked under this id.
  bool OnAnswer(int64_t id, const Answer& answer, int64_t now_ns, Effects& fx);
  // Behind what may leave now; the rest is dropped.
  void Goodbye();
  // Sends the next heartbeat at the latest when half of what is left until `deadline_ns` is gone.
  void BeatBeforeHalf(int64_t deadline_ns, int64_t now_ns);
  // The same for a lease that was granted until then; at once, if that is soon. A recent heartbeat that is not answered
  // yet is enough.
  void BeatForGrant(int64_t deadline_ns, int64_t now_ns);
  // When a heartbeat is due, or the session lapses.
  int64_t wake_ns() const { return streaming ? std::min(session.deadline_ns(), heartbeat_at_ns) : kNever; }
  void Tick(int64_t now_ns);
  // Whether its broker is to be told what proof is shown now: with each heartbeat, if it takes new ones.
  bool LooksForProof() const { return heartbeat_due && authenticates && usable(); }

  // Whether Pack would find something.
  bool HasNext() const { return heartbeat_due || (!waiting_.empty() && MayLeave(waiting_.front())); }
  // Fills in the next message. False: there is none. A heartbeat is stamped here: now is before it is handed to the
  // stream.
  bool Pack(int64_t now_ns, v1::SessionRequest& message);
  // An event has come under this id.
  void OnEvent(int64_t id);

 private:
  struct Command {
    int64_t id;
    size_t bytes;
    Write write;
  };
  // Heartbeat, Goodbye and Cancel have no id, and no event; the id of Open is not known here, nor is its event counted.
  bool MayLeave(const Command& next) const { return ahead_.size() < most_ahead || next.id == 0; }

  std::deque<Command> waiting_;
  absl::btree_map<int64_t, int64_t> ahead_;  // the ids of commands without any event: from the first to the last
};

}  // namespace distlock::internal
