// SPDX-License-Identifier: Apache-2.0
//
// The base of Hold, Session, WatchLock and WatchLocks: writing and ending. Made by Serve; lives until OnDone, and as
// long as a shard has it as a sink, which may be longer than the gRPC call. After OnDone it does nothing. `Base` is a
// Reactor.
//
// Invariants:
//  1. At most one write is in flight. Finish comes once, and only while no write is in flight.
//  2. mu_ is never held across StartWrite, Finish or a cancellation, because gRPC may call back from inside them.
//  3. The shards learn of the end (StreamEnded, once) when it is decided, not when a write completes, so a client that
//     does not read cannot keep a lease. Inputs are posted under mu_ while `ended()` is false, so none follows
//     StreamEnded.
#pragma once

#include <grpc/grpc.h>
#include <grpcpp/alarm.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "contract/error_details.h"
#include "contract/refusal.h"
#include "contract/to_proto.h"
#include "contract/utf8.h"
#include "rpc/arrival.h"
#include "rpc/engine/reactor.h"
#include "rpc/frontend.h"
#include "rpc/messages/status.h"
#include "rpc/quota.h"
#include "shard/sink.h"

namespace distlock::rpc {

template <typename Base>
class StreamCall : public Base,
                   public shard::Sink,
                   public OpenStream,
                   public std::enable_shared_from_this<StreamCall<Base>> {
 public:
  using typename Base::Call;

  template <typename Derived>
  static void Serve(Frontend& frontend, Call arrival) {
    auto call = std::make_shared<Derived>(frontend, std::move(arrival));
    call->self_ = call;
    Admit(*call);
  }

  v1::SessionInfo Describe() final {
    v1::SessionInfo info;
    info.set_session_id(public_id());
    info.set_peer(peer_);
    *info.mutable_open_time() = contract::ToProto(since_);
    std::lock_guard lock(mu_);
    info.set_identity(contract::CleanText(subject_.identity()));
    DescribeMore(&info);
    return info;
  }

  void Review() final {
    Subject now;
    {
      std::lock_guard lock(mu_);
      now.caller = subject_.caller;
    }
    if (now.caller == nullptr) return;
    frontend_.authorizer.Refresh(now);
    std::optional<v1::Refusal> refusal = OnlyWatches() ? frontend_.authorizer.CheckWatches(now) : std::nullopt;
    if (!refusal) refusal = Unwelcome(now);
    if (refusal) Revoke(*refusal);
  }

  void Stop() final {
    End(ToStatus(contract::ErrorOf(contract::DrainingRefusal())), StreamClose::kDrained, /*drop=*/false);
  }

 protected:
  StreamCall(Frontend& frontend, Call arrival)
      : frontend_(frontend),
        shards_(frontend.shards),
        session_(frontend.shards.NewSessionId()),
        peer_(frontend.inside.PeerOf(arrival->context, arrival->connection.get())),
        since_{absl::ToUnixMicros(absl::Now())} {
    this->Bind(std::move(arrival));
  }

  // Streams that only watch are counted apart, so that watching cannot keep anybody from locking.
  virtual bool OnlyWatches() const { return false; }
  // Called when the stream is admitted and bound: starts to read, posts, or ends the stream.
  virtual void Start() = 0;
  // Under mu_. Moves the content of the next message to the writing side; false: nothing waits.
  virtual bool TakeNext() = 0;
  // Makes the message from the content that TakeNext moved. On the same thread, without mu_.
  virtual grpc::ByteBuffer Render() = 0;
  // Without mu_. Something was written, perhaps.
  virtual void OnPumped() {}
  // Under mu_. Drops the events that wait to be written.
  virtual void Clear() = 0;
  // Under mu_. Adds the client's name, and the numbers of the stream's leases and waiters.
  virtual void DescribeMore(v1::SessionInfo* info) const = 0;
  // Any thread, without mu_. Why a stream of this kind may not go on, by rights that have changed; nullopt: it may.
  virtual std::optional<v1::Refusal> Unwelcome(Subject& subject) { return frontend_.authorizer.CheckTakesAny(subject); }
  // Under mu_, once. Posts StreamEnded to each shard that knows the session.
  virtual void EndShards() = 0;
  // Under mu_. Nothing of the stream is left for the end of its process to free.
  virtual bool GaveAllBack() const { return false; }

  bool ended() const { return end_.has_value(); }  // under mu_

  // The stream's id in SessionOpened.session_id and in ListSessions.
  std::string public_id() const { return absl::StrCat(frontend_.broker_id, "-", session_); }

  // Under mu_, before the stream has ended. Has the shards told when the client's process has ended, if it is the one
  // in the claim and is known to have made this connection. False: it is not.
  bool BindProcess(const v1::ProcessClaim& claim) {
    const acceptor::Connection* const connection = this->connection();
    if (frontend_.deaths == nullptr || connection == nullptr || claim.pidfd_inode() <= 0) return false;
    const acceptor::ProcessClaim process{.boot_id = claim.boot_id(),
                                         .pidfd_inode = static_cast<uint64_t>(claim.pidfd_inode())};
    const auto tell = [&shards = shards_, died = core::HolderDied{session_, HolderName()}] {
      for (int shard = 0; shard < shards.size(); ++shard) shards.Post(shard, died);
    };
    if (frontend_.deaths->Bind(*connection, process, session_, tell)) bound_to_ = connection->id;
    return bound_to_ != 0;
  }

  // Under mu_. Decides how the stream ends. Waiting events are still written; the caller must call Pump.
  void Decide(grpc::Status status, StreamClose why) {
    if (end_) return;
    end_ = std::move(status);
    EndShards();
    if (bound_to_ != 0) frontend_.deaths->Unbind(bound_to_, session_, GaveAllBack(), acceptor::Clock::now());
    if (frontend_.observer != nullptr) frontend_.observer->OnStreamClosed(why);
  }

  // Decide and Pump. `drop`: drops the waiting events, and cuts off a write in flight, which may never complete.
  void End(grpc::Status status, StreamClose why, bool drop) {
    bool cut = false;
    {
      std::lock_guard lock(mu_);
      if (end_) return;
      cut = drop && writing_;
      cutting_ = cut;
      Decide(std::move(status), why);
      if (drop) Clear();
    }
    if (cut) {
      grpc_call_cancel_with_status(this->context().c_call(), static_cast<grpc_status_code>(end_->error_code()),
                                   end_->error_message().c_str(), nullptr);
      std::lock_guard lock(mu_);
      cutting_ = false;
    }
    Pump();
  }

  void Refuse(const v1::Refusal& refusal, StreamClose why, const core::LockName& about = {}) {
    if (frontend_.observer != nullptr) frontend_.observer->OnRefusedHere(contract::ReasonOf(refusal.reason()));
    End(ToStatus(contract::ErrorOf(refusal, about)), why, /*drop=*/false);
  }

  // The reading side: who calls, by another proof; or why it does not count.
  std::variant<Subject, v1::Refusal> ArriveAgain(const std::string& authorization) {
    access::PeerFacts facts = frontend_.inside.FactsOf(this->context(), this->connection(), frontend_.unix_peer_of);
    facts.authorization = {authorization};
    return frontend_.authorizer.ArriveAgain(subject_, facts);
  }

  // Writes the next message, or finishes. Without mu_.
  void Pump() {
    Write();
    OnPumped();
  }

  void OnWriteDone(bool ok) final {
    {
      std::lock_guard lock(mu_);
      writing_ = false;
      if (!ok) {
        Decide(grpc::Status::CANCELLED, StreamClose::kBroken);
        Clear();
      }
    }
    Pump();
  }

  void OnCancel() final { End(grpc::Status::CANCELLED, StreamClose::kBroken, /*drop=*/true); }

  void OnDone() final {
    const auto self = std::move(self_);
    {
      std::lock_guard lock(mu_);
      Decide(grpc::Status::CANCELLED, StreamClose::kBroken);
      Clear();
    }
    {
      const std::lock_guard checked(checking_mu_);
    }
    if (account_ != nullptr) account_->CloseSession();
    frontend_.admission.Leave(peer_, session_);
  }

  // Constant after construction. frontend_ may be used only before OnDone.
  Frontend& frontend_;
  shard::ShardSet& shards_;
  const core::SessionId session_;
  const std::string peer_;
  const core::StoreTime since_;

  // The caller: set before Start, and changed by the reading side alone, which replaces `subject_.caller` under mu_.
  // Others read that under mu_, and nothing else of it.
  Subject subject_;
  // The caller's account, in which this stream counts; null: none when the stream was opened.
  std::shared_ptr<access::Account> account_;

  std::mutex mu_;
  // Keeps frontend_ and the call alive for a thread outside of the reactions, which holds this and has then seen, under
  // mu_, that the stream has not ended. Taken before mu_.
  std::mutex checking_mu_;

 private:
  // Reads who calls. False: the stream is refused.
  bool Arrive() {
    auto arrived = rpc::Arrive(frontend_, this->context(), this->connection());
    if (const auto* refusal = std::get_if<v1::Refusal>(&arrived)) {
      Refuse(*refusal, StreamClose::kDenied);
      return false;
    }
    subject_ = std::get<Subject>(std::move(arrived));
    if (subject_.account == nullptr) return true;
    if (!subject_.account->OpenSession()) {
      Refuse(TooManyStreams(*subject_.account, subject_.identity()), StreamClose::kQuota);
      return false;
    }
    account_ = subject_.account;
    return true;
  }

  static void Admit(StreamCall& call) {
    if (!call.Arrive()) return;
    Admission& admission = call.frontend_.admission;
    if (auto refusal = admission.Admit(call.peer_, call.session_, call.weak_from_this(), call.OnlyWatches())) {
      const bool drained = refusal->reason() == v1::REFUSAL_REASON_DRAINING;
      return call.Refuse(*refusal, drained ? StreamClose::kDrained : StreamClose::kQuota);
    }
    if (call.OnlyWatches()) call.AwaitEndOfProof(call.subject_);
    call.Start();
  }

  void Revoke(const v1::Refusal& refusal) {
    End(ToStatus(contract::ErrorOf(refusal)), StreamClose::kRevoked, /*drop=*/true);
  }

  // Before Start, or with checking_mu_. Ends the stream at the end of what proves who watches, or up to 1 s later.
  void AwaitEndOfProof(const Subject& watching) {
    const auto left = frontend_.authorizer.ProofLeft(watching);
    if (!left) return;
    const gpr_timespec pause = gpr_time_from_seconds(std::max<int64_t>(1, left->count()), GPR_TIMESPAN);
    std::lock_guard lock(mu_);
    if (ended()) return;
    proof_end_ = grpc::Alarm();  // one for each time: gRPC does not say that an alarm can be set twice
    proof_end_.Set(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), pause), [weak = this->weak_from_this()](bool passed) {
      const auto self = passed ? weak.lock() : nullptr;
      if (self != nullptr) self->OnEndOfProof();
    });
  }

  void OnEndOfProof() {
    std::optional<v1::Refusal> refusal;
    {
      const std::lock_guard checking(checking_mu_);
      Subject now;
      {
        std::lock_guard lock(mu_);
        if (ended()) return;
        now.caller = subject_.caller;
      }
      refusal = frontend_.authorizer.CheckWatches(now);
      if (!refusal) AwaitEndOfProof(now);  // the clock was put back
    }
    if (refusal) Revoke(*refusal);
  }

  void Write() {
    if (!BeginNext()) return;
    if (!this->WriteNow(&out_)) return;
    {
      std::lock_guard lock(mu_);
      writing_ = false;
    }
    // No loop here: after the second message the call's own thread writes the rest.
    if (BeginNext()) this->StartWrite(&out_);
  }

  // True: the next message is in out_, and the caller must write it. False: nothing to write now; a stream that has
  // ended and has nothing left to write is finished.
  bool BeginNext() {
    bool write = false;
    {
      std::lock_guard lock(mu_);
      if (writing_ || finished_ || cutting_) return false;
      write = TakeNext();
      if (!write && !end_) return false;
      (write ? writing_ : finished_) = true;
    }
    if (write) {
      out_ = Render();
    } else {
      this->Finish(*end_);
    }
    return write;
  }

  // For the log.
  std::string HolderName() const {
    return subject_.identity().empty() ? peer_ : absl::StrCat(contract::CleanText(subject_.identity()), " ", peer_);
  }

  // Guarded by mu_.
  uint64_t bound_to_ = 0;  // the connection whose process is watched for this stream
  bool writing_ = false;
  bool finished_ = false;
  bool cutting_ = false;
  grpc::Alarm proof_end_;
  std::optional<grpc::Status> end_;  // set once, never changed: a thread that saw it set may read it without mu_

  // Owned by the writing side, which is the thread that set writing_.
  grpc::ByteBuffer out_;

  std::shared_ptr<StreamCall> self_;
};

}  // namespace distlock::rpc
