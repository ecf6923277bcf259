// SPDX-License-Identifier: Apache-2.0
//
// Watches the processes behind connections that have claimed to end with them, and tells when one has ended. A pidfd
// becomes readable when the last thread of its process has gone, so nothing of it runs any more; the end of the socket
// proves less, since a process can close it and live, or end and leave it to a child. The socket mostly ends first, so
// a process is watched for a while after that, too.
//
// Thread: any, but for OnReadable, Leave and Tick: the acceptor's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "acceptor/connection.h"
#include "acceptor/process.h"
#include "acceptor/rate_limit.h"

namespace distlock::acceptor {

class Deaths {
 public:
  // Told once, on the acceptor's thread; must not block.
  using OnDeath = std::function<void()>;

  // At most `most` processes are watched, each with one descriptor. `linger`: so long after the end of a stream, or of
  // its connection, the end of the process still matters to somebody. `observer` may be null, and outlives this.
  Deaths(ProcessProbe probe, size_t most, std::chrono::milliseconds linger, Observer* observer);
  Deaths(const Deaths&) = delete;
  Deaths& operator=(const Deaths&) = delete;

  // Readable when a process has ended.
  int fd() const { return epoll_.get(); }
  void OnReadable();

  // Tells `on_death` when the process behind the connection has ended, if that is the one in the claim. `key` names who
  // is told, once for each connection. False: it is not, the connection is gone, or too many are watched.
  [[nodiscard]] bool Bind(const Connection& connection, const ProcessClaim& claim, uint64_t key, OnDeath on_death);
  // The owner of `key` has ended. `for_good`: it has given everything back, so nothing is told any more. Else it is
  // told for a while yet.
  void Unbind(uint64_t connection, uint64_t key, bool for_good, Clock::time_point now);
  // The connection is over; its connection is closed already.
  void Leave(uint64_t connection, Clock::time_point now);
  void Tick(Clock::time_point now);
  // Tells nobody any more, when it returns.
  void Stop();

  size_t watched() const;

 private:
  struct Process {
    Fd pidfd;
    uint64_t inode = 0;
    absl::btree_map<uint64_t, OnDeath> told;  // by key
  };
  // An entry to forget in time: one of those told, or all of a connection that is over.
  struct Due {
    Clock::time_point at;
    uint64_t connection = 0;
    uint64_t key = 0;  // 0: all
  };
  void Forget(const Due& due);  // under mu_

  const ProcessProbe probe_;
  const size_t most_;
  const std::chrono::milliseconds linger_;
  Observer* const observer_;
  const Fd epoll_;

  std::mutex telling_;  // held while somebody is told
  mutable std::mutex mu_;
  // Guarded by mu_.
  bool stopped_ = false;
  absl::flat_hash_map<uint64_t, Process> watched_;  // by connection
  std::deque<Due> due_;                             // the earliest first
};

}  // namespace distlock::acceptor
