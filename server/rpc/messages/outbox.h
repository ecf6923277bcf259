// SPDX-License-Identifier: Apache-2.0
//
// The events that wait to be written to one session, in order and bounded. While a write is in flight, newer states of
// a lease (AtRisk, Renewed), newer hints of it (Wanted) and newer heartbeat acks replace older ones. Events are packed
// into messages only when they are taken, so the shard's turn spends no time on messages.
//
// An ack overtakes what says nothing of a lease, Queued and Refused, however much of it waits. It overtakes nothing
// else: it covers every lease that it does not list, so the client must have heard of the others' ends before.
//
// Not thread-safe: the session's mutex guards it. A batch that was taken belongs to the caller.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/messages.h"
#include "distlock/v1/lock_service.pb.h"

namespace distlock::rpc {

// One message holds at most kMaxEventsPerMessage events, and takes no more once it has kFullMessageBytes. Its size
// stays far below the 4 MiB that gRPC clients accept by default.
inline constexpr size_t kMaxEventsPerMessage = 1000;
inline constexpr size_t kFullMessageBytes = 512 * 1024;
// Limits::outbox_messages counts in units of so many events.
inline constexpr size_t kOutboxEventsPerMessage = 100;

// So much of the holders that one event shows, and the first of them in any case: very many refusals may name them.
inline constexpr size_t kMostHolderBytes = 2048;

struct Outgoing {
  core::RequestId id = 0;
  core::Event event;
  core::LockName about;                    // the lock of a Refused, which does not name it
  std::unique_ptr<v1::SessionEvent> made;  // instead of `event`, for an answer that rpc itself made
};

class Outbox {
 public:
  explicit Outbox(size_t max_events) : max_events_(max_events) {}

  // False: the outbox is full, and `out` was not added.
  [[nodiscard]] bool Push(Outgoing out);

  bool empty() const { return live_ == 0; }
  size_t size() const { return live_; }
  // Memory of the events, about.
  size_t bytes() const { return bytes_; }
  void Clear();

  // Moves events from the front to the end of `batch`: up to `max` of them, and no more once they have `max_bytes`.
  // Returns how many bytes they have.
  size_t Take(size_t max, size_t max_bytes, std::deque<Outgoing>& batch);

 private:
  // nullopt: replaced by a newer event. The slot stays, so that the slots behind it keep their numbers.
  using Slot = std::optional<Outgoing>;

  const size_t max_events_;
  std::deque<Slot> slots_;
  size_t live_ = 0;
  size_t bytes_ = 0;
  uint64_t first_ = 0;  // number of the slot in front; numbers are never reused
  uint64_t ack_ = kNone;
  uint64_t ack_goes_to_ = 0;                                     // behind the last slot that an ack must not overtake
  using Slots = absl::flat_hash_map<core::RequestId, uint64_t>;  // by acquire
  Slots state_;                                                  // of its AtRisk or Renewed
  Slots wanted_;                                                 // of its Wanted

  static constexpr uint64_t kNone = ~uint64_t{0};
  void Drop(uint64_t number);
  void DropOf(core::RequestId acquire, Slots& slots);
  // Those in which newer events replace older ones; null: in none.
  Slots* SlotsOf(const Outgoing& out);
};

// Leaves no more of an event's holders than kMostHolderBytes.
void ShortenHolders(core::Event& event);

// Packs from the front of `batch` into an empty message, until the message is full by events or bytes. The rest stays
// in `batch`.
void Pack(std::deque<Outgoing>& batch, v1::SessionResponse* response);

}  // namespace distlock::rpc
