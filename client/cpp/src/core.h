// SPDX-License-Identifier: Apache-2.0
//
// The inside of a Client: the lock table under one mutex, its streams, and the thread that wakes for deadlines,
// heartbeats and reconnects. Every call does the same: it changes the table under the mutex, unlocks it, runs the
// callbacks that this led to (Effects), and sends the commands that have gathered (Flush). Thread-safe.
//
// 1. The mutex is never held across a gRPC operation or the program's code.
// 2. One write is in flight at a time on each stream; commands that gather meanwhile leave together. A thread that runs
//    callbacks sends only after the last of them, so that all their commands leave in one message.
// 3. Guards and mutexes share the Core; only Close (the Client's destructor) ends it.
// 4. The program's callbacks run on a thread of the library, never on a caller's: on the thread of the calls while it
//    serves no other Client, else on the Core's own, so that they hold up no other Client. After Close, and in a child
//    of fork, the library has no thread: a callback then gets a thread that ends with it. Only a lock's stop tokens are
//    stopped by the thread that releases the lock.
// 5. In a child of fork a Core does nothing and takes no mutex, since its copy may be locked for ever. The locks, the
//    stream and the threads belong to the parent.
#pragma once

#include <absl/strings/str_cat.h>
#include <grpcpp/support/status.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "addresses.h"
#include "backoff.h"
#include "boot_clock.h"
#include "distlock/client.h"
#include "fork.h"
#include "lock_table.h"
#include "lookups.h"
#include "mutex.h"
#include "stream.h"

namespace distlock::internal {

// Where a callback runs when its answer is known already during the call that passes it, as after Close.
enum class TellOn {
  kLibraryThread,
  kThisThread,  // only for callbacks of the library itself, which wake a blocked caller
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  // Throws std::system_error when the system has no descriptor or no thread for it.
  Core(ClientOptions options, const MakeTransport& make_transport);
  void Start();
  void Close();

  LeasePtr Acquire(std::shared_ptr<const Spec> spec, std::optional<Duration> max_wait, LockCallback callback,
                   TellOn where = TellOn::kLibraryThread);
  // See LockTable::AcquireAll.
  LeasePtr AcquireAll(const std::vector<std::shared_ptr<const Spec>>& specs, std::optional<Duration> max_wait,
                      std::vector<LockCallback> callbacks, TellOn where = TellOn::kLibraryThread);
  void Cancel(const LeasePtr& lease, TellOn where = TellOn::kLibraryThread);
  void Release(const LeasePtr& lease, ReleaseCallback callback, TellOn where = TellOn::kLibraryThread);
  void Downgrade(const LeasePtr& lease, DowngradeCallback callback, TellOn where = TellOn::kLibraryThread);
  // Has others see `value` under this name among the lease's metadata.
  void Proclaim(const LeasePtr& lease, const std::string& name, std::string value, ChangeCallback callback,
                TellOn where = TellOn::kLibraryThread);
  // Calls `callback` with `refusal`, on a thread of the library.
  void Refuse(LockCallback callback, Refusal refusal);

  LockState StateOf(const LeasePtr& lease);
  std::stop_token StopToken(const LeasePtr& lease);
  // The lease's end will stop `stop`, too. If the lease has ended already, this call stops it.
  void StopsAlso(const LeasePtr& lease, std::stop_source stop);
  std::string EndMessage(const LeasePtr& lease);
  LockMode ModeOf(const LeasePtr& lease);

  bool connected();
  bool draining();
  const ClientOptions& options() const { return options_; }
  Lookups& lookups() { return lookups_; }
  // For Awaited. Null in a child of fork.
  const std::shared_ptr<Waiting>& waiting() const { return Forked() ? not_waiting_ : waiting_; }

  // True in a child of the process that made this Core.
  bool Forked() const { return ForkCount() != made_in_; }
  // Why calls are refused: the client is closed, or this is a child of fork. Nothing when calls are allowed.
  std::optional<Refusal> Unusable();

  // True inside a callback of the library. A wait there would block the thread that has to end it.
  static bool OnLibraryThread();
  // Runs `callback` on a new thread, which ends with it and counts as a thread of the library.
  static void RunApart(Callback<void()> callback);
  // The program's callback, which is then called by the executor of the options, if there is one. Callbacks of the
  // library itself, which wake a blocked caller, are never left to an executor: the caller may be its only thread.
  template <class T>
  Callback<void(T)> ForProgram(Callback<void(T)> callback) const;

  // Called by the stream.
  void OnResponse(Stream* stream, const v1::SessionResponse& response, Effects& fx);
  void OnWritten(Stream* stream, bool ok);
  void OnReadEnd(Stream* stream);
  void OnStreamDone(int link, const grpc::Status& status, bool shares_thread = false);

 private:
  bool Overdue(int64_t deadline_ns, int64_t now_ns) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return table_.Overdue(deadline_ns, now_ns);  // an atomic
  }

  // After a call of the program: sends the commands that have gathered, and runs the callbacks or has them run, by
  // `where`.
  void Answer(Effects& fx, TellOn where);
  // Nobody waits for the answer to what the program asks for.
  void AttendFor(TellOn where) const {
    if (where == TellOn::kLibraryThread && waiting() != nullptr) waiting()->Attend();
  }
  // Leaves the callbacks of `fx` to the thread.
  void Post(Effects fx);
  // On a thread of the library: runs the callbacks, then sends the commands that have gathered.
  void Tell(Effects& fx);
  // On a thread that other Clients may share: the same, but leaves the program's callbacks to the own thread then.
  void TellOnCallThread(Effects& fx, bool shares_thread);
  // A callback that throws ends the process.
  void RunCallbacks(Effects& fx) noexcept;

  // `will_wait`: this thread will Await right after it, and so have a write end that is in flight.
  void Flush(bool will_wait = false);
  void Run();
  void StartStream();
  // The stream of one of the table's links.
  struct Line {
    Stream* stream = nullptr;  // in use; null between streams
    int streams = 0;           // not done yet, at most one
    size_t broker = 0;         // where the last one went to
    bool left = false;         // the table goes on with the other link: how this stream ends does not matter
  };

  // On the Core's thread: tells the table what proof is shown to the link's broker now.
  void ShowProof(int link) ABSL_LOCKS_EXCLUDED(mu_);
  // When the broker has been silent for too long: breaks the stream and returns it, with the caller counted in
  // use.operations. Else null.
  Stream* BreakIfLapsed(int link, int64_t now_ns, Effects& fx) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Break(int link, EndCause cause, const std::string& why, int64_t now_ns, Effects& fx)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Goes on with the next broker, at once, when the table has left the present one.
  void FollowTable(Effects& fx) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Line& LineOf(int link) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return lines_[static_cast<size_t>(link)]; }
  // A line for the program, if it wants any.
  template <class... Parts>
  void Log(Effects& fx, LogLevel level, const Parts&... parts) const {
    if (options_.log) fx.log.emplace_back(level, absl::StrCat(parts...));
  }
  void Arm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Wakes the thread at once.
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Cancels a stream whose use.operations the caller has raised, and lowers it again.
  void CancelStream(Stream* stream);
  // After an attempt that failed, or a stream that ended, with `status`.
  void PlanReconnect(const grpc::Status& status, Effects& fx) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Ended() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return lines_[0].streams + lines_[1].streams == 0; }

  // Constant after construction.
  const ClientOptions options_;
  const uint64_t made_in_;

  BootTimer timer_;

  // Used by the thread, and by Close after it has joined the thread. Null in a child that was forked while its parent
  // used gRPC.
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<Waiting> waiting_;  // of the transport; constant after construction
  const std::shared_ptr<Waiting> not_waiting_;
  std::thread thread_;

  Mutex mu_;
  Addresses addresses_ ABSL_GUARDED_BY(mu_);
  Lookups lookups_;  // thread-safe
  LockTable table_ ABSL_GUARDED_BY(mu_);
  std::array<Line, LockTable::kLinks> lines_ ABSL_GUARDED_BY(mu_);
  bool wanted_ ABSL_GUARDED_BY(mu_);                  // ClientOptions::connect_at_once, or a lock has been asked for
  int present_ ABSL_GUARDED_BY(mu_) = 0;              // the table's link that is started next, or was last
  int64_t reconnect_at_ns_ ABSL_GUARDED_BY(mu_) = 0;  // of that link
  Backoff reconnects_ ABSL_GUARDED_BY(mu_);
  int64_t armed_ns_ ABSL_GUARDED_BY(mu_) = kNever;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool thread_ended_ ABSL_GUARDED_BY(mu_) = false;  // it does not read posted_ any more
  Effects posted_ ABSL_GUARDED_BY(mu_);             // callbacks for the thread to run
};

template <class T>
Callback<void(T)> Core::ForProgram(Callback<void(T)> callback) const {
  if (!options_.executor || !callback) return callback;
  return [executor = options_.executor, callback = std::move(callback)](T answer) mutable {
    executor([callback = std::move(callback), answer = std::move(answer)]() mutable { callback(std::move(answer)); });
  };
}

}  // namespace distlock::internal
