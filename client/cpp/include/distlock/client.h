// SPDX-License-Identifier: Apache-2.0
//
// Client: the connection to a lock broker. One stream and two threads (besides gRPC's own) serve all its locks, so a
// program needs one Client. It connects in the background from construction on and reconnects by itself. Thread-safe.
//
// When the stream breaks, every lock held through it is lost at once (Guard::state() is kLost, stop tokens fire), and
// waits go on through the next stream with what is left of their max_wait.
//
// Callbacks run on threads of the library, but for what a call ends by itself: Release, ReleaseAsync and the destructors stop the
// guard's token on their own thread. They must not block: while one blocks, nothing is heard from the broker and all locks of this
// client run toward their deadlines. Blocking calls made from a callback on a thread of the library are refused.
//
// The locks belong to the process that took them. In a child of fork without exec the copies of guards say kLost, and asking
// through a copy of the Client is refused (both kClientClosed), whatever becomes of these copies; the parent's locks are not
// touched. A child makes a Client of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "distlock/election.h"
#include "distlock/guard.h"
#include "distlock/multi_lock.h"
#include "distlock/mutex.h"
#include "distlock/rw_lock.h"
#include "distlock/semaphore.h"
#include "distlock/types.h"

namespace distlock {

// DISTLOCK_SERVER, else unix:///run/distlock/distlock.sock where that socket exists, else 127.0.0.1:7420.
std::string DefaultAddress();

struct ClientOptions {
  std::string address;       // a gRPC target: "unix:///path" or "host:port"; "" = DefaultAddress()
  std::string client_label;  // shown by ListSessions; up to 256 bytes; "" = the program's name

  // How long an acquire goes on without any broker before it is refused with kUnreachable (never beyond its max_wait;
  // one try gives the connection this long, too). Duration::max() = for ever.
  Duration unreachable_timeout = std::chrono::seconds(10);

  // What a broken stream does to acquires that are not granted yet: re-issue them on the next one, or refuse them with
  // kUnreachable.
  bool reissue_waits = true;

  // Pause before the n-th attempt to connect: random between zero and min(max, initial * 2^n).
  Duration reconnect_initial = std::chrono::milliseconds(50);
  Duration reconnect_max = std::chrono::seconds(2);

  Duration connect_timeout = std::chrono::seconds(5);  // of one attempt
  Duration close_timeout = std::chrono::seconds(1);    // how long the destructor waits for the goodbye

  // The broker goes down in `time_left`; what is not released by then is lost. Must not block.
  std::function<void(Duration time_left)> on_draining;
};

// One acquire, for LockAsync.
struct LockRequest {
  std::string key;
  LockOptions options;
};

class Client {
 public:
  explicit Client(ClientOptions options = {});
  // Gives back all locks (guards then say kLost, kClientClosed), refuses what still waits with kClientClosed, says
  // goodbye, and waits at most close_timeout for that to arrive. Not to be called from a callback.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Mutex MakeMutex(std::string key, LockOptions options = {});
  RwLock MakeRwLock(std::string key, LockOptions options = {});
  Semaphore MakeSemaphore(std::string key, uint32_t limit, LockOptions options = {});
  MultiLock MakeMultiLock(LockSet locks);
  Election MakeElection(std::string name, std::string value = "", LockOptions options = {});

  // For event-driven programs that keep many in flight. See Mutex::LockAsync; a Mutex used again is cheaper.
  PendingLock LockAsync(LockRequest request, LockCallback callback);

  bool connected() const;  // a session is open at this moment
  bool draining() const;   // the present broker said that it goes down
  const std::string& address() const;

 private:
  friend class Election;
  friend class MultiLock;
  friend class Mutex;
  friend class RwLock;
  friend class Semaphore;
  std::shared_ptr<internal::Core> core_;
};

}  // namespace distlock
