// SPDX-License-Identifier: Apache-2.0
//
// The Engine drives the lock table of a Client: its mutex, its streams, and the thread that wakes for deadlines,
// heartbeats and reconnects. Thread-safe. The thread and each stream keep it alive.
//
// 1. Every turn does the same: it changes the table under the mutex, unlocks it, runs the callbacks that this led to
//    (Effects), and sends the commands that have gathered (Flush). The mutex is never held across a gRPC operation or
//    the program's code.
// 2. One write is in flight at a time on each stream; commands that gather meanwhile leave together. A thread that runs
//    callbacks sends only after the last of them, so that all their commands leave in one message.
// 3. The program's callbacks run on a thread of the library, never on a caller's: on the thread of the calls while it
//    serves no other Client, else on the Engine's own, so that they hold up no other Client. Only a lock's stop tokens
//    are stopped by the thread that releases the lock.
#pragma once

#include <absl/functional/function_ref.h>
#include <absl/strings/str_cat.h>
#include <grpcpp/support/status.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "addresses.h"
#include "backoff.h"
#include "boot_clock.h"
#include "lock_table.h"
#include "lookups.h"
#include "mutex.h"
#include "stream.h"

namespace distlock::internal {

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  // Throws std::system_error when the system has no descriptor for it.
  Engine(ClientOptions options, const MakeTransport& make_transport);
  // Starts the thread. Throws std::system_error when the system has none.
  void Start();
  void Close();

  // Somebody waits, or nobody, for the answer to what a turn asks for.
  enum class Asker { kNobody, kBlockedCaller, kProgram };
  // A call of the program: `act` changes the table.
  using Act = absl::FunctionRef<void(LockTable& table, int64_t now_ns, Effects& fx)>;
  void Turn(Asker asker, Act act);
  // The same for a caller who may hold a mutex that the program's callbacks take: the thread runs them.
  void TurnQuietly(Act act);
  // No more than a look, under the mutex.
  template <class Look>
  auto With(Look look) {
    MutexLock lock(&mu_);
    return look(table_);
  }
  // Any thread, without the mutex.
  bool IsOverdue(int64_t deadline_ns, int64_t now_ns) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return table_.IsOverdue(deadline_ns, now_ns);  // an atomic
  }
  const std::shared_ptr<Waiting>& waiting() const { return waiting_; }
  Lookups& lookups() { return lookups_; }

  // Called by the streams.
  void OnResponse(Stream& stream, const v1::SessionResponse& response);
  void OnWritten(Stream& stream, bool ok);
  void OnReadEnd(Stream& stream);
  void OnStreamEnd(Stream& stream, const grpc::Status& status);

 private:
  static constexpr int kLinks = LockTable::kLinks;
  using StreamPtr = std::shared_ptr<Stream>;

  // Sends what has gathered. `will_wait`: this thread waits for an answer right after it, and so hears of the end of a
  // write that is in flight.
  void Flush(bool will_wait = false);
  // On a thread of the library: runs the effects, then sends the commands that have gathered. `shares_thread`: the
  // program's are left to the Engine's own.
  void Tell(Effects& fx, bool shares_thread = false);
  // Leaves them to the thread.
  void Post(Effects fx);

  void Run();
  void Tick(Effects& fx) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void StartStream();
  // Tells the table what proof is shown to the link's broker now.
  void ShowProof(int link);
  // The stream of a link has ended, or must end. Goes on with the next broker, if it was that of the present link.
  void Break(int link, EndCause cause, const std::optional<Refusal>& failure, int64_t now_ns, Effects& fx)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t PauseAfter(const std::optional<Refusal>& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool WantsStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return wanted_ && !table_.closed() && StreamOf(table_.present()) == nullptr;
  }
  void Arm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Wakes the thread at once.
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  StreamPtr& StreamOf(int link) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return streams_[static_cast<size_t>(link)]; }
  // A line for the program, if it wants any.
  template <class... Parts>
  void Log(Effects& fx, LogLevel level, const Parts&... parts) const {
    if (!options_.log) return;
    fx.Add(Effects::By::kLibrary, [log = options_.log, level, line = absl::StrCat(parts...)] { log(level, line); });
  }

  const ClientOptions options_;
  BootTimer timer_;
  Mutex mu_;
  Addresses addresses_ ABSL_GUARDED_BY(mu_);
  Lookups lookups_;  // thread-safe
  // Used by the thread, and by Close after it has joined the thread.
  std::unique_ptr<Transport> transport_;
  const std::shared_ptr<Waiting> waiting_;
  std::thread thread_;

  LockTable table_ ABSL_GUARDED_BY(mu_);
  std::array<StreamPtr, kLinks> streams_ ABSL_GUARDED_BY(mu_);  // null: the link has none
  int open_streams_ ABSL_GUARDED_BY(mu_) = 0;                   // also those that are broken and have not ended yet
  bool wanted_ ABSL_GUARDED_BY(mu_);                  // ClientOptions::connect_at_once, or a lock has been asked for
  int64_t reconnect_at_ns_ ABSL_GUARDED_BY(mu_) = 0;  // when the present link may have a stream
  Backoff reconnects_ ABSL_GUARDED_BY(mu_);
  int64_t armed_ns_ ABSL_GUARDED_BY(mu_) = kNever;
  bool thread_ended_ ABSL_GUARDED_BY(mu_) = false;  // it does not read posted_ any more
  Effects posted_ ABSL_GUARDED_BY(mu_);             // for the thread to run
};

}  // namespace distlock::internal
