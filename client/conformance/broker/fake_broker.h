// SPDX-License-Identifier: Apache-2.0
//
// A broker in this process: LockService.Session with locks in a map, strict FIFO, and switches for faults. Listens on a
// unix socket in a folder of its own, or where it is told. Thread-safe; stops with its destructor. A watcher may look
// at everything that arrives, and Send and End say what no switch does.
#pragma once

#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <grpcpp/server.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "distlock/v1/lock_service.grpc.pb.h"

namespace distlock::testing {

// A new folder under /tmp, which is deleted with its content.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// A status with google.rpc details as a broker sends them.
grpc::Status StatusWith(grpc::StatusCode code, const std::string& message, const std::string& reason,
                        std::chrono::milliseconds retry_delay = {});

class FakeBroker final : public v1::LockService::WithCallbackMethod_Session<v1::LockService::Service> {
 public:
  struct Behaviour {
    int64_t validity_ms = 30'000;       // longer than a busy machine pauses, for tests of other things
    int64_t heartbeat_interval_ms = 0;  // 0: a third of the validity
    int32_t max_message_bytes = 0;      // 0: not told
    int32_t max_leases = 0;             // 0: not told
    int32_t max_unanswered = 0;         // 0: not told
    std::vector<std::string> features{"adopt"};
    std::string store_id;
    bool answer_heartbeats = true;
    bool answer_open = true;
    bool grant = true;  // false: acquires get no answer
    bool answer_releases = true;
    bool answer_cancels = true;
    bool answer_adoptions = true;
    bool answer_downgrades = true;
    // Refuses each adoption so; unspecified: grants it, whoever had the lease before.
    v1::RefusalReason refuse_adoptions = v1::REFUSAL_REASON_UNSPECIFIED;
    bool draining = false;                         // refuses acquires with DRAINING
    bool grant_stale = false;                      // grants have no time left
    int64_t limit_ms = -1;                         // >= 0: every ack limits every lease to this
    grpc::Status open_status = grpc::Status::OK;   // anything else ends each stream at its Open
    grpc::Status look_status = grpc::Status::OK;   // anything else answers each GetLock and WatchLock
    grpc::Status watch_status = grpc::Status::OK;  // the same, only for WatchLock
  };

  // One GetLock or WatchLock that arrived.
  struct Look {
    bool watch;
    absl::Time at;
    std::string peer;
  };

  // One thing that a stream brought, in the order of arrival. `session` counts the streams from 1.
  struct Sight {
    // kHalfClosed: the stream is over because the client closed its side without Goodbye. kOver: for any other reason.
    enum class Kind { kSession, kMessage, kCommand, kHalfClosed, kOver, kBrokenRule };
    Kind kind;
    int64_t session = 0;
    int64_t at_ns;                                // CLOCK_BOOTTIME: not before the client sent it
    size_t bytes = 0;                             // kMessage: of the whole message
    const v1::SessionCommand* command = nullptr;  // kCommand
    std::string rule;                             // kBrokenRule: the rule of session.md that the client broke
  };
  // Runs on a thread of gRPC, one at a time, and must not call the broker.
  using Watcher = std::function<void(const Sight&)>;

  // `address` "": a socket of its own. "127.0.0.1:0": a free port, which address() then names.
  explicit FakeBroker(std::string address = "") : FakeBroker(Behaviour{}, std::move(address)) {}
  explicit FakeBroker(Behaviour behaviour, std::string address = "", Watcher watcher = nullptr);
  ~FakeBroker() override;

  const std::string& address() const { return address_; }
  void Set(const std::function<void(Behaviour&)>& change);

  // Ends all streams, like a crash of the broker.
  void BreakStreams();
  // Sent to the newest session. `id`: of the newest acquire, for events about a lease.
  void Send(const v1::SessionEvent& event);
  // Sent to this session, 0: to the newest one. False: it has ended.
  bool Send(int64_t session, const v1::SessionResponse& response);
  // Ends a session with a status, after what was sent before. False: it has ended.
  bool End(int64_t session, const grpc::Status& status);
  // Tells the newest session that the broker drains, and refuses everything new from now on.
  void Drain();
  int64_t LastAcquireId();
  void Hold(const std::string& key);  // another client takes the lock
  void Free(const std::string& key);  // takes the lock from its holder without telling it; the next waiter gets it
  bool HeldByAnybody(const std::string& key);

  // The messages that were received.
  size_t Messages();
  size_t Streams();
  size_t Count(v1::SessionCommand::CommandCase kind);
  std::vector<v1::SessionCommand> Commands(v1::SessionCommand::CommandCase kind);
  std::vector<Look> Looks();
  // Waits until the condition is true; false after a time that no machine should need.
  bool WaitFor(const std::function<bool(FakeBroker&)>& condition);

 private:
  class Peer;
  struct Owner {
    Peer* session;  // null: another client
    int64_t acquire_id;
  };
  struct Locked {
    std::deque<Owner> queue;  // the front is the holder
  };

  grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* Session(
      grpc::CallbackServerContext* context) override;
  grpc::Status GetLock(grpc::ServerContext* context, const v1::GetLockRequest* request,
                       v1::GetLockResponse* response) override;
  grpc::Status WatchLock(grpc::ServerContext* context, const v1::WatchLockRequest* request,
                         grpc::ServerWriter<v1::WatchLockResponse>* stream) override;
  void OnMessage(Peer& session, const v1::SessionRequest& request, int64_t at_ns);
  void OnOver(Peer& session, bool half_closed);
  Peer* FindSession(int64_t session);
  void See(const Peer& session, Sight sight);
  void Handle(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out);
  void Ack(Peer& session, int64_t seq, v1::SessionResponse& out);
  void Acquire(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out);
  void Adopt(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out);
  void Release(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out);
  void Cancel(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out);
  void Grant(const std::string& key, const Owner& owner, v1::SessionResponse& out);
  void Remove(const std::string& key, size_t position, Peer* telling, v1::SessionResponse& out);
  void Forget(Peer& session);

  std::optional<Folder> folder_;  // of a socket of its own: a process that is killed would leave one behind
  const Watcher watcher_;
  std::string address_;  // constant after construction
  std::unique_ptr<grpc::Server> server_;

  absl::Mutex mu_;
  Behaviour behaviour_;
  std::map<std::string, Locked> locks_;
  std::vector<Peer*> sessions_;
  std::vector<v1::SessionCommand> received_;
  std::vector<Look> looks_;
  bool stopping_ = false;
  size_t messages_ = 0;
  size_t streams_ = 0;
  int64_t token_ = 100;
  int64_t last_acquire_ = 0;
};

}  // namespace distlock::testing
