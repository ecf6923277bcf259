// SPDX-License-Identifier: Apache-2.0
//
// A message that is filled again and again, on an arena of its own: a busy client need not allocate memory for each
// command and event. Not thread-safe.
#pragma once

#include <google/protobuf/arena.h>

#include <cstddef>
#include <memory>

namespace distlock::internal {

template <class T>
class ReusedMessage {
 public:
  ReusedMessage() : arena_(OptionsWith(block_.get())) { Renew(); }

  // Empties it.
  T& Renew() {
    arena_.Reset();
    message_ = google::protobuf::Arena::CreateMessage<T>(&arena_);
    return *message_;
  }
  T& operator*() const { return *message_; }
  T* operator->() const { return message_; }

 private:
  static constexpr size_t kFirstBlock = 32 << 10;

  static google::protobuf::ArenaOptions OptionsWith(char* block) {
    google::protobuf::ArenaOptions options;
    options.initial_block = block;
    options.initial_block_size = kFirstBlock;
    return options;
  }

  const std::unique_ptr<char[]> block_{new char[kFirstBlock]};
  google::protobuf::Arena arena_;
  T* message_ = nullptr;
};

}  // namespace distlock::internal
