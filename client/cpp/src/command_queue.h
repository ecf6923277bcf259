// SPDX-License-Identifier: Apache-2.0
//
// The commands that wait to be sent, packed into batches: each Batch is one SessionRequest below the broker's message
// limit, which is wire::kMostMessageBytes until the broker has told its own. A batch lives on an arena of its own and
// is reused, so that a busy client does not allocate memory for each command. Not thread-safe. A batch that was taken
// belongs to the taker until Recycle.
#pragma once

#include <google/protobuf/arena.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "commands_ahead.h"
#include "distlock/v1/lock_service.pb.h"
#include "distlock/wire/limits.h"
#include "process_claim.h"

namespace distlock::internal {

// How much of a message of at most `message_bytes` the content of commands may take. The rest is room for the framing
// of each command and of each lock in it.
constexpr size_t BatchBytes(size_t message_bytes) { return message_bytes - message_bytes / 4; }

class Batch {
 public:
  Batch();
  v1::SessionCommand* Add(size_t bytes);
  void Beat(int64_t seq);
  void SayGoodbye();
  void Clear();
  const v1::SessionRequest& message() const { return *message_; }
  size_t bytes() const { return bytes_; }
  size_t commands() const { return static_cast<size_t>(message_->commands_size()); }
  bool must_leave() const { return must_leave_; }  // whatever is ahead of it

 private:
  static constexpr size_t kFirstBlock = 32 << 10;

  std::unique_ptr<char[]> block_;
  google::protobuf::Arena arena_;
  v1::SessionRequest* message_;
  size_t bytes_ = 0;
  bool must_leave_ = false;
};

class CommandQueue {
 public:
  // `generation`: how many sessions were opened before.
  void Open(int64_t id, const std::string& label, int32_t generation,
            const std::optional<ProcessClaim>& claim = std::nullopt);
  // `locks[i]` becomes the acquire `id` + i. `bytes`: the serialized size of all of them, at most batch_bytes().
  // `max_wait_ns` < 0: wait until granted. `request_id`: keeps the place in the queue; "": it has none.
  void Acquire(int64_t id, std::span<const v1::LockSpec* const> locks, size_t bytes, int64_t max_wait_ns,
               const std::string& request_id);
  struct Adoption {
    const std::string& lease_id;
    const v1::LockSpec& lock;  // as it was acquired
    bool downgraded;           // it is SHARED now
    const std::string& request_id;
    size_t holds;  // how often it is held; they become the acquires `id`, `id` + 1, ...
  };
  void Adopt(int64_t id, const Adoption& adoption);
  void Release(int64_t id, int64_t acquire_id, bool lapsed = false);
  void Cancel(int64_t id, int64_t acquire_id);
  void Downgrade(int64_t id, int64_t acquire_id);
  void Authenticate(int64_t id, const std::string& authorization);
  // Into the message that leaves next.
  void Heartbeat(int64_t seq);
  // Behind what may leave now; the rest is dropped.
  void Goodbye();

  // SessionOpened.max_unanswered: no batch leaves that would make it more commands without any event, but a single one.
  // 0: the broker has not told it.
  void SetMostAhead(int32_t commands);
  // An event has come under this id.
  void Answered(int64_t id) { ahead_.Answered(id); }

  // SessionOpened.max_message_bytes, for the commands that are added from now on. 0: the broker has not told it.
  void SetMessageBytes(int32_t message_bytes);
  size_t batch_bytes() const { return batch_bytes_; }

  bool empty() const { return waiting_.empty(); }
  // Whether Take would find one.
  bool HasNext() const { return !waiting_.empty() && MayLeave(*waiting_.front()); }
  // The oldest batch, or null.
  std::unique_ptr<Batch> Take();
  void Recycle(std::unique_ptr<Batch> batch);
  // For the next stream, whose broker has told nothing yet.
  void Clear();

 private:
  static constexpr size_t kSpareBatches = 4;
  static constexpr size_t kMostAhead = 256;

  v1::SessionCommand* Add(size_t bytes);
  std::unique_ptr<Batch> NewBatch();
  std::unique_ptr<Batch> TakeFirst();
  bool MayLeave(const Batch& batch) const {
    return ahead_.count() == 0 || batch.must_leave() || ahead_.count() + batch.commands() <= most_ahead_;
  }

  size_t batch_bytes_ = BatchBytes(wire::kMostMessageBytes);
  size_t most_ahead_ = kMostAhead;
  CommandsAhead ahead_;
  std::deque<std::unique_ptr<Batch>> waiting_;
  std::vector<std::unique_ptr<Batch>> spare_;
};

}  // namespace distlock::internal
