// SPDX-License-Identifier: Apache-2.0
//
// Session: many locks on one stream. Commands are checked, routed to the shards of their locks, and posted in one batch
// per shard and message. Events that have gathered are packed into one message per write.
//
// Open opens the session on shard 0; the first lock that lives on another shard opens it there. A breach of the
// protocol (no Open first or in time, id 0, an id in use, bytes that are not a message) ends the stream, because no
// event could answer it. Every other mistake is answered by a refusal under the command's id.
//
// Thread: the reactions, one at a time, on the CallThreads; OnEvents and Send on the thread that has a shard's turn;
// see StreamCall.
#pragma once

#include <grpcpp/alarm.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "contract/ids.h"
#include "rpc/messages/command_book.h"
#include "rpc/messages/outbox.h"
#include "rpc/rate_limit.h"
#include "rpc/stream/command_rest.h"
#include "rpc/stream/heartbeats.h"
#include "rpc/stream/stream_call.h"

namespace distlock::rpc {

class SessionCall final : public StreamCall<BidiReactor> {
 public:
  SessionCall(Frontend& frontend, Call arrival);

  void OnReadDone(bool ok) override;
  void OnYieldDone() override { GoOn(); }
  void OnEvents(int shard, std::vector<core::Notify> events) override;
  void Send() override;
  bool MayHoldMany() const override { return true; }

 private:
  // New proofs, each of which may cost the verification of a signature.
  static constexpr uint32_t kProofsPerSecond = 4;

  // A checked command that is not routed yet: an input of the core, or a refusal.
  struct Ready {
    core::RequestId id = 0;
    core::RequestId ids = 1;  // how many ids, from `id` on, a refusal answers
    std::variant<core::Acquire, core::AcquireAll, core::Adopt, core::Release, core::Downgrade, core::Cancel,
                 core::Heartbeat, core::Goodbye, v1::Authenticated, v1::Refusal>
        what;
  };
  // Acquires for one shard, posted together.
  struct Batch {
    std::vector<core::Input> inputs;
    std::vector<core::RequestId> acquires;
  };

  void Start() override;
  bool TakeNext() override;
  grpc::ByteBuffer Render() override;
  void Clear() override;
  void OnPumped() override { ReadOn(); }
  void EndShards() override;
  void DescribeMore(v1::SessionInfo* info) const override;
  bool GaveAllBack() const override { return leaving_ && said_goodbye_ == open_on_; }

  // Why the reading side ends the stream: what has been read broke a rule, or there is no room.
  struct Stop {
    v1::Refusal refusal;
    StreamClose why = StreamClose::kProtocol;
  };
  static Stop Broken(std::string problem);
  // Without mu_ and checking_mu_. Nothing, when the stream has ended.
  void EndBy(const Stop& stop);

  // Reading side: called by OnReadDone, which runs once at a time.
  // Routes a part of what was read, yields before the next part, and reads on after the last; or leaves that to ReadOn,
  // while as much of this session waits for the shards, or to be written, as may.
  void GoOn();
  void ReadOn();
  // Checks as many commands of rest_ as there is room for, when none is ready.
  std::optional<Stop> TakeRest();
  bool HasRoom() const {
    return commands_share_.room() > 0 && heartbeats_share_.room() > 0 && unwritten_ < most_unwritten_;
  }
  void ShareWithPeer();
  std::optional<Stop> Open(const v1::SessionCommand& command);
  void OnOpenTimeout();
  Ready Check(const v1::SessionCommand& command);
  Ready CheckAcquire(const v1::SessionCommand& command);
  std::optional<v1::Refusal> RateOrDrainRefusal();
  std::optional<v1::Refusal> TooManyUnanswered() const;
  std::optional<v1::Refusal> RoomFor(size_t more) const;
  // Under mu_: brings the caller's account up to date, after the book has changed or the stream has ended.
  void CountUse();
  // Waiting acquires that the account does not know of yet.
  size_t Uncounted() const;
  Ready CheckRelease(const v1::SessionCommand& command);
  Ready CheckDowngrade(const v1::SessionCommand& command);
  Ready CheckAdopt(const v1::SessionCommand& command);
  // Takes the new proof at once: commands behind this one are judged by it.
  Ready CheckAuthenticate(const v1::SessionCommand& command);

  // Under mu_. Route and RouteOne return how the protocol was broken; "": it was not. Route stops without room.
  std::string Route();
  std::string RouteOne(Ready& command);
  void RouteAcquire(core::Acquire acquire);
  void RouteAcquireAll(core::AcquireAll all);
  void RouteAdopt(core::Adopt adopt);
  void RouteRelease(core::RequestId id, core::Release release);
  void RouteDowngrade(core::RequestId id, core::Downgrade downgrade);
  void RouteHeartbeat(uint64_t seq);
  void PostHeartbeat(int shard, uint64_t seq);
  bool OpenOn(int shard);
  void Flush(int shard);
  void FlushAll();
  // Posts the batch that waits for the shard first, so that commands keep their order.
  void PostNow(int shard, core::Input input);
  void Answer(Outgoing out);  // the caller must call Deliver
  void CountUnwritten();
  void Refused(core::RequestId id, v1::Refusal refusal);
  void Take(int shard, core::Notify notify);
  void TakeEnd(int shard, core::StreamEnd why);

  // Without mu_. Calls Pump, or ends a stream whose client does not read.
  void Deliver();

  // Reading side.
  grpc::ByteBuffer in_;
  bool opened_ = false;
  grpc::Alarm open_timeout_;  // until Open has come
  RateLimit rate_;
  RateLimit proofs_{kProofsPerSecond};
  contract::AdoptionTries adoptions_;
  std::vector<Ready> ready_;  // of the last message
  CommandRest rest_;          // what follows them there
  size_t routed_ = 0;         // how many of ready_ are routed
  std::shared_ptr<PeerUse> peer_use_;
  std::atomic<bool> waits_for_room_ = false;  // who resets it goes on as the reading side
  shard::MailShare commands_share_;
  shard::MailShare heartbeats_share_;
  std::atomic<size_t> most_unwritten_ = 0;
  std::atomic<size_t> unwritten_ = 0;  // written under mu_

  // Guarded by mu_.
  std::string client_;       // Open.client
  uint32_t generation_ = 0;  // Open.generation; set before the first command is read
  CommandBook book_;
  Heartbeats heartbeats_;
  Outbox outbox_;
  std::vector<Batch> batches_;  // one per shard
  uint64_t open_on_ = 0;        // bit i: shard i knows this session
  uint64_t said_goodbye_ = 0;   // bit i: shard i has given everything back
  bool leaving_ = false;        // Goodbye has come
  int64_t counted_leases_ = 0;  // of this session, in account_
  int64_t counted_waiters_ = 0;
  bool overflow_ = false;
  size_t writing_bytes_ = 0;  // of batch_out_, or of the message that was made of it

  // Owned by the writing side.
  std::deque<Outgoing> batch_out_;
};

}  // namespace distlock::rpc
