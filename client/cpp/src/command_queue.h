// SPDX-License-Identifier: Apache-2.0
//
// The commands that wait to be sent, packed into batches: each Batch is one SessionRequest below the broker's message
// limit. A batch lives on an arena of its own and is reused, so that a busy client does not allocate memory for each
// command. Not thread-safe. A batch that was taken belongs to the taker until Recycle.
#pragma once

#include <google/protobuf/arena.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "distlock/v1/lock_service.pb.h"
#include "distlock/wire/limits.h"

namespace distlock::internal {

// The difference is room for the framing of each command and of each lock in it.
inline constexpr size_t kBatchBytes = wire::kMostMessageBytes - (16 << 10);

class Batch {
 public:
  Batch();
  v1::SessionCommand* Add(size_t bytes);
  void Clear();
  const v1::SessionRequest& message() const { return *message_; }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kFirstBlock = 32 << 10;

  std::unique_ptr<char[]> block_;
  google::protobuf::Arena arena_;
  v1::SessionRequest* message_;
  size_t bytes_ = 0;
};

class CommandQueue {
 public:
  void Open(uint64_t id, const std::string& label);
  // `bytes`: the serialized size of `spec`. `max_wait_ns` < 0: wait until granted.
  void Acquire(uint64_t id, const v1::LockSpec& spec, size_t bytes, int64_t max_wait_ns);
  // `locks[i]` becomes the acquire `id` + i; `bytes`: of all of them.
  void AcquireAll(uint64_t id, const std::vector<const v1::LockSpec*>& locks, size_t bytes, int64_t max_wait_ns);
  void Release(uint64_t id, uint64_t acquire_id, bool lapsed = false);
  void Cancel(uint64_t id, uint64_t acquire_id);
  void Downgrade(uint64_t id, uint64_t acquire_id);
  void Heartbeat(uint64_t seq);
  void Goodbye();

  bool empty() const { return waiting_.empty(); }
  // The oldest batch, or null.
  std::unique_ptr<Batch> Take();
  void Recycle(std::unique_ptr<Batch> batch);
  void Clear();

 private:
  static constexpr size_t kSpareBatches = 4;

  v1::SessionCommand* Add(size_t bytes);

  std::deque<std::unique_ptr<Batch>> waiting_;
  std::vector<std::unique_ptr<Batch>> spare_;
};

}  // namespace distlock::internal
