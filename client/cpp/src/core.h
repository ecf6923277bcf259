// SPDX-License-Identifier: Apache-2.0
//
// What stands behind a Client: the lock table under one mutex, the stream, and the thread that wakes for deadlines,
// heartbeats and reconnects. Every entry does the same: it steps the table under the mutex, unlocks it, tells the
// program what came of it (Effects), and sends what has gathered (Flush). Thread-safe.
//
// 1. The mutex is never held across a gRPC operation or the program's code.
// 2. One write is in flight at a time; what gathers meanwhile leaves together. On a thread that is telling the program,
//    sending waits until all is told, so that whatever the callbacks ask for leaves in one message.
// 3. Guards and mutexes share the Core; only Close (the Client's destructor) ends it.
// 4. The program's callbacks run on a thread of the library, never on that of a caller. After Close, and in a child of
//    fork, there is none: a callback then gets a thread that ends with it. Only a lock's stop tokens are stopped by the
//    thread that releases it.
// 5. In a child of fork a copy does nothing and takes no mutex, which may be locked there for ever: the locks, the
//    stream and the threads are the parent's.
#pragma once

#include <absl/synchronization/mutex.h>
#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backoff.h"
#include "boot_clock.h"
#include "call_thread.h"
#include "channel.h"
#include "distlock/client.h"
#include "fork.h"
#include "lock_table.h"
#include "stream.h"

namespace distlock::internal {

// Where a callback runs when the very call that brings it decides its answer, as for a closed client.
enum class TellOn {
  kLibraryThread,
  kThisThread,  // for the library's own callbacks alone: those that wake a blocked caller
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  // Throws std::system_error when the system has no descriptor or no thread for it.
  explicit Core(ClientOptions options);
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
  // Calls `callback` with `refusal`, on a thread of the library.
  void Refuse(LockCallback callback, Refusal refusal);

  LockState StateOf(const LeasePtr& lease);
  std::stop_token StopToken(const LeasePtr& lease);
  // The lease's end stops `stop`, too; if it has ended, this call does.
  void StopsAlso(const LeasePtr& lease, std::stop_source stop);
  std::string EndMessage(const LeasePtr& lease);

  bool connected();
  bool draining();
  const ClientOptions& options() const { return options_; }
  Lookups& lookups() { return lookups_; }

  // This process is a child of the one that made this Core.
  bool Forked() const { return ForkCount() != made_in_; }
  // Why nothing may be asked for here; nothing while the client is open, in its own process.
  std::optional<Refusal> Unusable();

  // This thread is inside a callback of the library: waiting here would wait for itself.
  static bool OnLibraryThread();
  // Runs `callback` on a thread that ends with it and counts as one of the library's.
  static void RunApart(std::function<void()> callback);

  // From the stream.
  void OnResponse(Stream* stream, const v1::SessionResponse& response, Effects& fx);
  void OnWritten(Stream* stream, bool ok);
  void OnReadEnd(Stream* stream);
  void OnStreamDone(const grpc::Status& status);

 private:
  bool quiet() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return table_.quiet(); }  // an atomic

  // Tells the program what one of its own calls led to, then sends what has gathered.
  void Answer(Effects& fx, TellOn where);
  // Has the callbacks of `fx` run by the thread.
  void Post(Effects fx);
  // Tells the program on a thread of the library, then sends what has gathered.
  void Tell(Effects& fx);
  // A callback that throws ends the process.
  void RunCallbacks(Effects& fx) noexcept;

  void Flush();
  void Run();
  void StartStream();
  // The stream, when the broker has not been heard on it for too long; then it is broken, and use.operations counts the
  // caller.
  Stream* BreakIfLapsed(int64_t now_ns, Effects& fx) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Break(EndCause cause, const std::string& why, int64_t now_ns, Effects& fx) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Arm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The thread is to come at once.
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Cancels a stream whose use.operations the caller has raised, and lowers it again.
  void CancelStream(Stream* stream);
  bool Ended() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return streams_ == 0; }

  // Constant after construction.
  const ClientOptions options_;
  const uint64_t made_in_;
  Lookups lookups_;

  BootTimer timer_;

  // Of the thread, and of Close once that has joined it. Null in a child whose parent has gRPC in use.
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::LockService::Stub> stub_;
  std::unique_ptr<CallThread> call_thread_;  // of the streams
  std::thread thread_;

  absl::Mutex mu_;
  LockTable table_ ABSL_GUARDED_BY(mu_);
  Stream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;  // in use; null between streams
  int streams_ ABSL_GUARDED_BY(mu_) = 0;           // not done yet, at most one
  int64_t reconnect_at_ns_ ABSL_GUARDED_BY(mu_) = 0;
  Backoff reconnects_ ABSL_GUARDED_BY(mu_);
  int64_t armed_ns_ ABSL_GUARDED_BY(mu_) = kNever;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool thread_ended_ ABSL_GUARDED_BY(mu_) = false;  // it takes nothing of posted_ any more
  Effects posted_ ABSL_GUARDED_BY(mu_);             // to be told by the thread
};

}  // namespace distlock::internal
