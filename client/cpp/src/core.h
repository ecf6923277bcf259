// SPDX-License-Identifier: Apache-2.0
//
// What stands behind a Client: the table under one mutex, the stream, the thread that wakes for deadlines, heartbeats
// and reconnects. Every entry does the same: step the table under the mutex, let it go, tell the program (Effects),
// send what has gathered (Flush). Thread-safe.
//
// 1. The mutex is never held across a gRPC operation or foreign code.
// 2. One write is in flight; what gathers meanwhile leaves together. On a thread that is telling the program, sending
// waits
//    until all is told, so that whatever the callbacks ask for leaves in one message.
// 3. Guards and mutexes share the Core; only Close (the Client's destructor) ends it.
// 4. In a child of fork its copy does nothing, and takes no mutex, which may be locked for ever there: the locks, the
//    stream and the threads are the parent's.
#pragma once

#include <absl/synchronization/mutex.h>
#include <grpcpp/channel.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "boot_clock.h"
#include "call_thread.h"
#include "distlock/client.h"
#include "fork_count.h"
#include "lock_table.h"
#include "stream.h"

namespace distlock::internal {

class Core : public std::enable_shared_from_this<Core> {
 public:
  explicit Core(ClientOptions options);
  void Start();
  void Close();

  LeasePtr Acquire(std::shared_ptr<const Spec> spec, std::optional<Duration> max_wait, LockCallback callback);
  // See LockTable::AcquireAll.
  LeasePtr AcquireAll(const std::vector<std::shared_ptr<const Spec>>& specs, std::optional<Duration> max_wait,
                      std::vector<LockCallback> callbacks);
  void Cancel(const LeasePtr& lease);
  void Release(const LeasePtr& lease, ReleaseCallback callback);
  void Downgrade(const LeasePtr& lease, DowngradeCallback callback);
  LockState StateOf(const LeasePtr& lease);
  std::stop_token StopToken(const LeasePtr& lease);
  // The lease's end stops it, too; at once, on this thread, when that has been.
  void StopsAlso(const LeasePtr& lease, std::stop_source stop);
  std::string EndMessage(const LeasePtr& lease);

  bool connected();
  bool draining();
  const std::string& address() const { return options_.address; }
  // A connection beside the stream's, for calls that only look.
  std::shared_ptr<grpc::Channel> NewChannel() const;

  // This thread is inside a callback of the library: waiting here would wait for itself.
  static bool OnLibraryThread();

  // From the stream.
  void OnResponse(Stream* stream, const v1::SessionResponse& response, Effects& fx);
  void OnWritten(Stream* stream, bool ok);
  void OnReadEnd(Stream* stream);
  void OnStreamDone(const grpc::Status& status);

 private:
  // This is a child's copy.
  bool Forked() const { return ForkCount() != made_in_; }
  bool quiet() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return table_.quiet(); }  // an atomic
  // Tells the program what `fx` holds. `on_library_thread`: as opposed to the program's own.
  void Tell(Effects& fx, bool on_library_thread);
  void Flush();
  void Run();
  void StartStream();
  // True: the caller lets the hold go, after the mutex.
  bool LetGo(Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Break(EndCause cause, const std::string& why, int64_t now_ns, Effects& fx) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Arm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The thread is to come at once.
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t Pause(const std::optional<Duration>& asked_for) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CancelAndLetGo(Stream* stream);
  bool Ended() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return streams_ == 0; }

  // Constant after construction.
  const ClientOptions options_;
  const uint64_t made_in_ = ForkCount();
  // Of the thread and of Close once that has joined it.
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::LockService::Stub> stub_;
  std::unique_ptr<CallThread> call_thread_;  // of the streams
  std::thread thread_;

  BootTimer timer_;

  absl::Mutex mu_;
  LockTable table_ ABSL_GUARDED_BY(mu_);
  Stream* stream_ ABSL_GUARDED_BY(mu_) = nullptr;  // in use; null between streams
  int streams_ ABSL_GUARDED_BY(mu_) = 0;           // not done yet, at most one
  int64_t reconnect_at_ns_ ABSL_GUARDED_BY(mu_) = 0;
  int failures_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t armed_ns_ ABSL_GUARDED_BY(mu_) = kNever;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::stop_source> to_stop_
      ABSL_GUARDED_BY(mu_);  // by the thread: who looked and saw a lease end is not to
  std::minstd_rand jitter_ ABSL_GUARDED_BY(mu_);
};

}  // namespace distlock::internal
