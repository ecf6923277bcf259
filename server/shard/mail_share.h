// SPDX-License-Identifier: Apache-2.0
//
// How many inputs of one session wait for the shards. The session's reader stops at the most, waits, and is woken once
// half of them are handled: so what is too much costs its sender, and nobody else.
//
// Thread: any. Posted and room are the reader's, Handled is a shard's turn's. It must live until StreamEnded of its
// session was handled.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace distlock::shard {

class MailShare {
 public:
  // `awaited`: the reader waits for room. It is set before room() is asked for the last time.
  MailShare(int64_t most, const std::atomic<bool>& awaited) : most_(most), awaited_(awaited) {}

  void SetMost(int64_t most) { most_.store(most); }
  int64_t room() const { return std::max<int64_t>(0, most_.load() - waiting_.load()); }

  void Posted(int64_t inputs) { waiting_.fetch_add(inputs); }
  // One was handled. True: the reader waits, and is to be woken.
  bool Handled() {
    const int64_t left = waiting_.fetch_sub(1) - 1;
    return (left == 0 || left == most_.load() / 2) && awaited_.load();
  }

 private:
  std::atomic<int64_t> waiting_ = 0;
  std::atomic<int64_t> most_;
  const std::atomic<bool>& awaited_;
};

}  // namespace distlock::shard
