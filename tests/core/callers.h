// SPDX-License-Identifier: Apache-2.0
//
// The clients of a simulated world: Session streams that beat, Hold streams, and detached callers that renew by
// themselves. They ask, wait, hold, release, cancel, break off and say goodbye as the dice fall, and believe by the rules
// that the proto files state. Hold and detached callers are local: nothing delays what they are told.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "node.h"

namespace distlock::core {

class Callers {
 public:
  Callers(Env& env, std::vector<std::unique_ptr<Node>>& nodes);

  void Start();
  // No new requests from now on; what waits goes on waiting, and what is held is soon released.
  void Settle() { acting_ = false; }
  bool idle() const;
  void CloseAll();

  void Told(int node, const Notify& notify);
  void NodeDied(int node);

 private:
  enum class Stage : uint8_t { kAsking, kHeld, kOver };
  struct Wish {
    Acquire spec;
    Stage stage = Stage::kAsking;
    bool believed = false;
    Instant until{};
    bool releasing = false;
    uint64_t token = 0;
  };
  struct Stream {
    SessionId id = 0;
    int client = 0;
    int node = 0;
    uint64_t life = 0;         // the node's
    bool detached = false;
    SessionKind kind = SessionKind::kSession;
    bool open = true;          // as the client sees it
    bool broker_open = true;   // StreamEnded has not reached the broker
    bool parted = false;       // nothing passes any more
    bool lost_up = false;      // nor does what is on its way
    bool lost_down = false;
    Instant up_at{};
    Instant down_at{};
    std::map<uint64_t, Instant> beats;
    uint64_t seq = 0;
    RequestId next_request = 1;
    std::map<RequestId, Wish> wishes;
  };
  using StreamPtr = std::shared_ptr<Stream>;

  // callers.cc: what clients do
  void Act(int client);
  void OpenStream(int client);
  void OnSession(const StreamPtr& stream);
  void Want(const StreamPtr& stream);
  Acquire MakeWish();
  void CancelOne(const StreamPtr& stream);
  void Break(const StreamPtr& stream);
  void Gone(const StreamPtr& stream);
  void Close(const StreamPtr& stream);
  void Beat(const StreamPtr& stream);
  void Send(const StreamPtr& stream, Input input);
  Duration BeatEvery() const;

  // believers.cc: what clients are told
  void Hear(const StreamPtr& stream, const Notify& notify);
  void OnGranted(const StreamPtr& stream, RequestId request, const Granted& granted);
  void OnAck(const StreamPtr& stream, const HeartbeatAck& ack);
  void Believe(Wish& wish, Instant until);
  void Release(const StreamPtr& stream, RequestId request);
  void EndWish(Wish& wish);
  void AskDetached(int client, int node, const Acquire& spec);
  void RenewDetached(const StreamPtr& stream);
  void ReleaseDetached(const StreamPtr& stream);
  void SendRelease(const StreamPtr& call, const Wish& wish);
  void AskOnceMore(const StreamPtr& stream);
  StreamPtr Call(int client, int node);
  int LiveNode();

  Env& env_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  bool acting_ = false;
  SessionId next_session_ = 1;
  int next_owner_ = 1;
  std::map<SessionId, StreamPtr> streams_;
  std::map<int, StreamPtr> mine_;                // by client: its stream, or its detached call
  std::map<SessionId, StreamPtr> renewals_;      // a Renew call -> the detached call whose lease it is about
  std::map<SessionId, StreamPtr> releases_;      // likewise a Release call
};

}  // namespace distlock::core
