// SPDX-License-Identifier: Apache-2.0
//
// A broker's side of the contract: Session, Hold and WatchLock streams and the calls Acquire, Renew, Release and
// Downgrade, over wires instead of gRPC, with the production's validation, conversion, lease ids and outboxes. It has
// one shard.
//
// It also checks that each request is answered as the contract says, independently of the clients.
#pragma once

#include <grpcpp/support/status.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/ids.h"
#include "contract/limits.h"
#include "contract/refusal.h"
#include "core/messages.h"
#include "distlock/v1/lock_service.pb.h"
#include "rpc/messages/command_book.h"
#include "rpc/messages/outbox.h"
#include "simulation/wire.h"

namespace distlock::sim {

// The client's side of one stream or call: receives its events. Lives as long as its client process.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnSession(const v1::SessionResponse& /*response*/) {}
  virtual void OnHold(const core::Event& /*event*/) {}
  virtual void OnLock(const v1::LockInfo& /*lock*/) {}
  virtual void OnGrant(const v1::Grant& /*grant*/) {}
  virtual void OnRenewed(Duration /*valid_for*/) {}
  virtual void OnReleased(core::ReleaseOutcome /*outcome*/) {}
  virtual void OnDowngraded() {}
  virtual void OnRefused(core::RefusalReason /*reason*/) {}
  virtual void OnStatus(const grpc::Status& /*status*/) {}
};
using ListenerPtr = std::shared_ptr<Listener>;

class Front {
 public:
  Front(Env& env, Process& broker, std::string broker_id, std::function<void(core::Input)> post);

  // A new stream or call on that wire; returns its number.
  core::SessionId Accept(const WirePtr& wire, ListenerPtr listener);
  void Session(core::SessionId id, const v1::SessionRequest& request);
  void Hold(core::SessionId id, const v1::HoldRequest& request);
  void Watch(core::SessionId id, const std::string& key);
  void Acquire(core::SessionId id, const v1::LockSpec& spec, const std::string& request_id);
  void Renew(core::SessionId id, const std::string& lease_id);
  void Release(core::SessionId id, const std::string& lease_id);
  void Downgrade(core::SessionId id, const std::string& lease_id);

  // Sessions and Hold streams that this life of a process has opened, those that have ended included.
  std::vector<core::SessionId> OpenedBy(const Process& client) const;

  void StartDrain() { draining_ = true; }
  bool draining() const { return draining_; }
  void Tell(core::Notify notify);
  // Names a request of a live stream that has no answer; "": there is none.
  std::string Unanswered() const;

 private:
  enum class Kind : uint8_t { kNone, kSession, kHold, kWatch, kAcquire, kRenew, kRelease, kDowngrade };
  enum class Answered : uint8_t { kNot, kGranted, kFinally };
  struct Stream {
    core::SessionId id = 0;
    Kind kind = Kind::kNone;
    WirePtr wire;
    ListenerPtr listener;
    rpc::CommandBook book;
    rpc::Outbox outbox{100'000};
    bool opened = false;
    bool leaving = false;
    bool writing = false;
    bool told_core = false;  // the core knows the stream and must be told of its end
    bool over = false;       // its end is decided: the outbox is still written, then the status
    uint32_t generation = 0;
    std::optional<contract::AdoptionTries> adoptions;
    grpc::Status status;
    Duration ttl{};
    Duration max_hold{};
    core::LockName name;
    core::OwnerId owner{};
    bool repeatable = false;
    std::map<core::RequestId, Answered> answers;
  };

  void Handle(Stream& stream, const v1::SessionCommand& command);
  void HandleAcquire(Stream& stream, const v1::SessionCommand& command);
  void HandleRelease(Stream& stream, const v1::SessionCommand& command);
  void HandleAdopt(Stream& stream, const v1::SessionCommand& command);
  void HandleDowngrade(Stream& stream, const v1::SessionCommand& command);
  void Refuse(Stream& stream, core::RequestId id, v1::Refusal refusal);
  void Push(Stream& stream, rpc::Outgoing out);
  void Pump(Stream& stream);
  void End(Stream& stream, grpc::Status status);
  void Finish(Stream& stream);
  void StreamOver(core::SessionId id);
  void NoteHolder(const Stream& stream);
  void TellSession(Stream& stream, core::Notify notify);
  void TellHold(Stream& stream, core::Event event);
  void TellWatch(Stream& stream, const core::Event& event);
  void TellCall(Stream& stream, const core::Event& event);
  void SendToClient(Stream& stream, std::function<void(Listener&)> say);
  void CheckAnswer(Stream& stream, const core::Notify& notify);
  core::OwnerId NewOwner();
  core::OwnerId OwnerOf(const core::Acquire& acquire, const std::string& request_id, uint32_t generation);
  std::string InfoOf(const v1::LockSpec& spec) const { return broker_id_ + ";" + spec.owner(); }

  Env& env_;
  Process& broker_;
  const std::string broker_id_;
  const std::function<void(core::Input)> post_;
  // As of requests of clients that know the operators' settings.
  Duration Allowed(Duration ttl) const { return std::min(ttl, longest_ttl_); }

  contract::Limits limits_;
  const Duration longest_ttl_;
  bool draining_ = false;
  core::SessionId next_id_ = 1;
  std::map<core::SessionId, std::unique_ptr<Stream>> streams_;
  struct Holder {
    const Process* process = nullptr;
    uint64_t life = 0;
  };
  std::map<core::SessionId, Holder> holders_;  // of all sessions and Hold streams so far
  // Acquire calls without a request_id that ended before their answer: a grant that still comes is released.
  std::map<core::SessionId, core::Release> orphans_;
};

}  // namespace distlock::sim
