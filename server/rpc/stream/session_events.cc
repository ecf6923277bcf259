// SPDX-License-Identifier: Apache-2.0
//
// SessionCall: turns the core's events into messages.
#include <utility>

#include "contract/error_details.h"
#include "contract/refusal.h"
#include "contract/to_proto.h"
#include "rpc/engine/wire.h"
#include "rpc/messages/status.h"
#include "rpc/stream/session.h"

namespace distlock::rpc {
namespace {

// While a peer, or all, have too much to be written, no session is ended that has less of it.
constexpr size_t kMostOfAnySession = size_t{64} << 10;

grpc::Status OverflowStatus() {
  return ToStatus(contract::ErrorOf(
      contract::MakeRefusal(core::RefusalReason::kQuotaExceeded,
                            "the client does not read its session: too many events wait for it (limit "
                            "outbox-messages); its leases are given up")));
}

}  // namespace

void SessionCall::EndShards() {
  for (int shard = 0; shard < static_cast<int>(batches_.size()); ++shard) {
    if ((open_on_ >> shard & 1) != 0) shards_.Post(shard, core::StreamEnded{session_});
  }
  CountUse();
}

void SessionCall::OnEvents(int shard, std::vector<core::Notify> events) {
  {
    std::lock_guard lock(mu_);
    for (core::Notify& notify : events) {
      if (ended()) break;
      Take(shard, std::move(notify));
    }
    CountUse();
  }
}

void SessionCall::Deliver() {
  bool overflow = false;
  {
    std::lock_guard lock(mu_);
    overflow = overflow_ && !ended();
  }
  if (overflow) return End(OverflowStatus(), StreamClose::kOverflow, /*drop=*/true);
  Pump();
}

void SessionCall::Take(int shard, core::Notify notify) {
  if (const auto* end = std::get_if<core::EndStream>(&notify.event)) return TakeEnd(shard, end->why);
  if (auto* ack = std::get_if<core::HeartbeatAck>(&notify.event)) {
    auto joined = heartbeats_.Answered(shard, std::move(*ack));
    if (joined) Answer({.id = 0, .event = *std::move(joined), .about = {}, .made = nullptr});
    return;
  }
  // Each shard drains; the client gets one message.
  if (std::holds_alternative<core::Draining>(notify.event) && shard != 0) return;
  const auto* queued = std::get_if<core::Queued>(&notify.event);
  if (queued != nullptr && frontend_.observer != nullptr) frontend_.observer->OnQueued(queued->position);
  if (const auto* granted = std::get_if<core::Granted>(&notify.event)) {
    heartbeats_.Granted(shard, notify.request, granted->valid_for);
  }
  core::LockName about = book_.OnEvent(notify.request, notify.event);
  Answer({.id = notify.request, .event = std::move(notify.event), .about = std::move(about), .made = nullptr});
}

void SessionCall::TakeEnd(int shard, core::StreamEnd why) {
  switch (why) {
    case core::StreamEnd::kGoodbye:
      said_goodbye_ |= uint64_t{1} << shard;
      if (said_goodbye_ == open_on_) Decide(grpc::Status::OK, StreamClose::kClient);
      return;
    case core::StreamEnd::kLapsed:
      return Decide(ToStatus(contract::LapsedError(frontend_.limits.validity)), StreamClose::kLapsed);
    case core::StreamEnd::kDrained:
      return Decide(ToStatus(contract::ErrorOf(contract::DrainingRefusal())), StreamClose::kDrained);
    case core::StreamEnd::kHolderDied:
      return Decide(ToStatus(contract::HolderDiedError()), StreamClose::kBroken);
  }
}

void SessionCall::Answer(Outgoing out) {
  if (out.made == nullptr) ShortenHolders(out.event);
  if (!outbox_.Push(std::move(out))) overflow_ = true;
  CountUnwritten();
  const contract::Limits& limits = frontend_.limits;
  const bool too_much = peer_use_->unwritten > static_cast<int64_t>(limits.outbox_bytes_per_peer) ||
                        frontend_.admission.unwritten() > static_cast<int64_t>(limits.outbox_bytes);
  if (too_much && unwritten_ > kMostOfAnySession) overflow_ = true;
}

void SessionCall::CountUnwritten() {
  if (peer_use_ == nullptr) return;  // refused before it was started
  const size_t now = outbox_.bytes() + writing_bytes_;
  const int64_t more = static_cast<int64_t>(now) - static_cast<int64_t>(unwritten_.exchange(now));
  peer_use_->unwritten += more;
  frontend_.admission.unwritten() += more;
}

void SessionCall::Refused(core::RequestId id, v1::Refusal refusal) {
  if (frontend_.observer != nullptr) frontend_.observer->OnRefusedHere(contract::ReasonOf(refusal.reason()));
  auto event = std::make_unique<v1::SessionEvent>();
  event->mutable_refused()->Swap(&refusal);
  Answer({.id = id, .event = {}, .about = {}, .made = std::move(event)});
}

void SessionCall::Clear() {
  outbox_.Clear();
  writing_bytes_ = 0;
  CountUnwritten();
}

bool SessionCall::TakeNext() {
  const size_t room = kMaxEventsPerMessage - std::min(kMaxEventsPerMessage, batch_out_.size());
  const size_t taken = outbox_.Take(room, most_unwritten_, batch_out_);
  writing_bytes_ = batch_out_.empty() ? 0 : writing_bytes_ + taken;
  CountUnwritten();
  return !batch_out_.empty();
}

grpc::ByteBuffer SessionCall::Render() {
  Scratch scratch;
  auto* response = scratch.Make<v1::SessionResponse>();
  Pack(batch_out_, response);
  return Serialize(*response);
}

}  // namespace distlock::rpc
