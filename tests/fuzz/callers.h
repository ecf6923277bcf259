// SPDX-License-Identifier: Apache-2.0
//
// The callers of a core and the rpc room's part between: bytes become commands, are checked and converted as the
// production does, and each answer of the core is packed as it would be sent. Aborts when a request is answered twice,
// an answer fits no request, or a promise is longer than the contract allows. Single-threaded.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "contract/limits.h"
#include "core/messages.h"
#include "distlock/v1/lock_service.pb.h"
#include "rpc/messages/command_book.h"
#include "rpc/messages/outbox.h"

namespace distlock::fuzz {

class Callers {
 public:
  explicit Callers(core::Duration validity);

  // Acts of callers. `slot` names one of a few streams; what it cannot do is ignored. The inputs it causes are taken by
  // NextInput, in order.
  void Session(size_t slot, std::string_view bytes);  // opens the stream when there is none
  void Session(size_t slot, const v1::SessionRequest& request);
  void Hold(size_t slot, const v1::LockSpec& spec);
  void Watch(const std::string& key);
  void Acquire(const v1::AcquireRequest& request);
  void Renew(std::string_view lease_id);
  void Release(std::string_view lease_id);
  void Break(size_t slot);  // a stream, or the call that is open longest
  void HeartbeatAll();

  // The core's events.
  void Told(core::Notify notify);

  // The next input for the core; false: there is none.
  bool NextInput(core::Input* input);
  // Whether every request on a stream that lives has its answer.
  bool AllAnswered() const;
  void EndAll();

  const std::vector<std::string>& lease_ids() const { return lease_ids_; }

 private:
  enum class Kind : uint8_t { kSession, kHold, kWatch, kAcquire, kRenew, kRelease };
  enum class Answered : uint8_t { kNot, kGranted, kFinally };
  struct Stream {
    core::SessionId id = 0;
    Kind kind = Kind::kSession;
    bool leaving = false;
    uint64_t seq = 0;
    core::Duration ttl{};
    core::Duration max_hold{};
    rpc::CommandBook book;
    rpc::Outbox outbox{1000};
    std::map<core::RequestId, Answered> answers;
  };
  using Streams = std::map<core::SessionId, std::unique_ptr<Stream>>;

  Stream* At(size_t slot);
  Stream& Open(Kind kind);
  void End(core::SessionId id);
  void Command(Stream& stream, const v1::SessionCommand& command);
  void AcquireOn(Stream& stream, const v1::SessionCommand& command);
  void Post(core::AcquireAll all);
  void ReleaseOn(Stream& stream, const v1::SessionCommand& command);
  void CheckAnswer(Stream& stream, const core::Notify& notify);
  void CheckPromise(const Stream& stream, const core::Event& event) const;
  void Push(Stream& stream, rpc::Outgoing out);
  void Flush(Stream& stream);
  void Remember(const v1::Grant& grant);
  core::OwnerId NewOwner();

  contract::Limits limits_;
  core::SessionId next_id_ = 1;
  uint64_t next_owner_ = 1;
  std::vector<core::SessionId> slots_;  // 0 = free
  Streams streams_;
  std::deque<core::Input> inputs_;
  std::vector<std::string> lease_ids_;
};

}  // namespace distlock::fuzz
