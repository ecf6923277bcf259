// SPDX-License-Identifier: Apache-2.0
//
// Client: the connection to a lock broker. One stream and one thread serve all of its locks, beside a thread that all
// Clients of the process share and gRPC's own, so a program needs one Client. From its construction on it connects in
// the background and reconnects by itself. Thread-safe.
//
// When the stream breaks, every lock held through it is lost at once (Guard::state() is kLost, stop tokens stop); only
// LockOptions::resume keeps one. Waits go on through the next stream with what is left of their max_wait.
//
// When the broker is about to go down and another one is known (ClientOptions::address), the client goes to that one by
// itself, with all its locks: guards and tokens stay the same, and the program hears nothing.
//
// Waits keep their place in the queue when they go on at another broker, or through another stream within the
// validity (3 s) of the broker.
//
// Callbacks. Every callback that is given to this library runs on a thread of the library, or on
// ClientOptions::executor, never on the thread of the call that it was given to; two may run at the same time. The
// thread of a call may therefore hold a mutex that the callback takes. There are two exceptions: Election::Observe
// calls back on its caller's thread, and a guard's Release, ReleaseAsync and destructor stop its stop tokens on theirs
// (guard.h). After the Client is destroyed, for an empty Guard, and in a child of fork no thread of the library is
// left: each callback then gets a short-lived thread of its own, and the call throws std::system_error when the system
// has none. A callback is moved and never copied, so it may capture a std::unique_ptr.
// - A callback on a thread of the library must not block: meanwhile nothing is heard from the broker, and all locks of
//   this client run toward their deadlines. Calls that would wait for the broker are refused there: kWouldDeadlock.
// - A callback must not throw: an exception that leaves it ends the process (std::terminate).
//
// Fork. Locks belong to the process that took them. In a child of fork (without exec) copies of guards say kLost, and
// every call on a copy of the Client is refused with kClientClosed. Destroying these copies is harmless. The parent's
// locks are not touched. gRPC does not survive a fork: in a child that was forked while its parent had a Client (or a
// moment after the last one was destroyed), a new Client refuses everything, too. Such a child must call exec. A child
// that was forked before the first Client was made can make a Client of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "distlock/callback.h"
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

// gRPC writes lines of its own on stderr, such as one for each TLS handshake that fails, and a Client's refusals say
// the same in words. Keeps these lines away, for the whole process, unless GRPC_VERBOSITY is set.
void SilenceGrpc();

// For brokers at tls://host:port. A field that is "" is read from DISTLOCK_TLS_CA, DISTLOCK_TLS_CERT, DISTLOCK_TLS_KEY
// and DISTLOCK_TLS_SERVER_NAME. The files hold PEM; they are read again at each connect.
struct TlsOptions {
  std::string ca;           // of the broker's certificate; "": the system's authorities
  std::string cert;         // the client's own certificate and those that issued it; "": none
  std::string key;          // of `cert`, without a password
  std::string server_name;  // that the broker's certificate must have; "": the host of the address
};

struct ClientOptions {
  // Brokers of one store, separated by commas: "unix:///path", "host:port" or "tls://host:port". The client uses one,
  // in a random order; when it cannot be reached or goes down, the next one at once. "" = DefaultAddress()
  std::string address;
  TlsOptions tls;
  // Holds the token that says who calls; read anew at each connect and call. "": the file DISTLOCK_TOKEN_FILE, if any.
  std::string token_file;
  std::string client_label;  // shown by ListSessions; up to 256 bytes; "" = the program's name

  // How long an acquire keeps looking for a broker before it is refused with kUnreachable, but never beyond its
  // max_wait; a single try, too. Duration::max() = for ever. Zero: a single try 1 s, a bounded wait until it ends,
  // another one 10 s.
  Duration unreachable_timeout{0};

  // The fate of acquires that wait when the stream breaks: true re-issues them on the next stream, false refuses them
  // with kUnreachable.
  bool reissue_waits = true;

  // After an attempt at each address the client pauses. The n-th pause is random between zero and
  // min(max, initial * 2^n), plus the pause that the broker has asked for, cut to reconnect_max.
  Duration reconnect_initial = std::chrono::milliseconds(50);
  Duration reconnect_max = std::chrono::seconds(2);

  Duration connect_timeout = std::chrono::seconds(5);  // of one attempt
  // For each call of inspect.h, detached.h and admin.h, and of Election::Look: first to find a broker that answers at
  // all, among those of `address`, and then for its answer.
  Duration call_timeout = std::chrono::seconds(5);
  Duration close_timeout = std::chrono::seconds(1);  // how long the destructor waits for the broker's answer

  // False: no stream is opened before a lock is asked for by one. For programs that only look, or that take detached
  // locks: the broker does not list them among its sessions.
  bool connect_at_once = true;

  // On the broker's machine, by a unix socket: when this process has ended, however it did, its locks are free at once.
  // The kernel must be Linux 6.9 or newer; otherwise, and with false, they are free when the last promise has passed,
  // which takes up to the broker's --validity. Say false when another process acts under the locks of this one.
  bool ends_with_process = true;

  // The caller of the program's callbacks: those of the Async calls, LockOptions::on_queued and on_draining. Unset: a
  // thread of the library. The executor gets a function to call once, later, on a thread of its own; it must not wait
  // for the library, and it must not call the function before it returns. Stop tokens are not among them (see guard.h).
  // A callback that runs on the executor may block and may make blocking calls. After the Client is destroyed the
  // executor is still given what guards and locks that outlive the Client are asked for.
  std::function<void(Callback<void()>)> executor;

  // Gets a line for each change of the connection. Called on threads of the library, by several at a time; it must
  // neither block nor throw, nor call the Client. Lines hold addresses, never a lease_id. Unset: none.
  std::function<void(LogLevel level, std::string_view line)> log;

  // Called when the broker is about to go down, and locks cannot move to another one: those that are not released
  // within `time_left` are lost. A callback as above.
  std::function<void(Duration time_left)> on_draining;
};

// One acquire, for LockAsync.
struct LockRequest {
  std::string key;
  LockOptions options;
};

class Client {
 public:
  // Does not wait for the connection. Throws std::system_error when the system has no descriptor or no thread for it,
  // and std::invalid_argument when an address has no port, or when a file of ClientOptions::tls or the token's is
  // needed and cannot be used.
  explicit Client(ClientOptions options = {});
  // Gives all locks back (guards then say kLost, kClientClosed), refuses what still waits with kClientClosed, and waits
  // for the callbacks of both to return, so the caller must not hold a mutex that they take. Then says goodbye to the
  // broker and waits at most close_timeout for the answer. Must not be called from a callback.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Mutex MakeMutex(std::string key, LockOptions options = {});
  RwLock MakeRwLock(std::string key, LockOptions options = {});
  Semaphore MakeSemaphore(std::string key, int32_t limit, LockOptions options = {});
  MultiLock MakeMultiLock(LockSet locks);
  Election MakeElection(std::string name, std::string value = "", LockOptions options = {});

  // For event-driven programs with many acquires in flight. See Mutex::LockAsync, which is cheaper when one Mutex
  // serves many acquires.
  PendingLock LockAsync(LockRequest request, LockCallback callback);

  bool connected() const;              // a session is open at this moment
  bool draining() const;               // the broker that new locks are asked of is about to go down
  const std::string& address() const;  // all of them, as ClientOptions::address

 private:
  friend class Admin;
  friend class DetachedLocks;
  friend class Election;
  friend class Inspector;
  friend class MultiLock;
  friend class Mutex;
  friend class RwLock;
  friend class Semaphore;
  std::shared_ptr<internal::Core> core_;
};

}  // namespace distlock
