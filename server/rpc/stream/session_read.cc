// SPDX-License-Identifier: Apache-2.0
//
// SessionCall: reading, as fast as commands are handled here and events are read there.
#include <algorithm>
#include <utility>

#include "rpc/engine/wire.h"
#include "rpc/stream/session.h"

namespace distlock::rpc {
namespace {

// So many commands of any session may wait, whatever the other sessions of its peer have there.
constexpr size_t kLeastUnhandled = 4;
// So many bytes may wait to be written to any session before it is not read any more.
constexpr size_t kLeastUnwritten = size_t{8} << 10;
constexpr size_t kMostUnwritten = size_t{2} << 20;
// So many commands are checked and routed at a time. Each takes microseconds; a message may have thousands, and all
// sessions share a few threads.
constexpr int64_t kCommandsPerTurn = 64;

}  // namespace

void SessionCall::OnReadDone(bool ok) {
  if (!ok) {
    // The client half-closed or was cut off, or the broker ended the stream. Without Goodbye this is an abnormal end.
    bool leaving = false;
    {
      std::lock_guard lock(mu_);
      leaving = leaving_;
    }
    if (!leaving) End(grpc::Status::OK, StreamClose::kClient, /*drop=*/false);
    return;
  }
  grpc::Slice message;
  if (auto problem = InOnePiece(in_, &message)) return EndBy(Broken(*std::move(problem)));
  in_.Clear();
  rest_.Set(std::move(message));
  ShareWithPeer();
  GoOn();
}

void SessionCall::ShareWithPeer() {
  const contract::Limits& limits = frontend_.limits;
  const auto sessions = static_cast<size_t>(std::max(1, peer_use_->streams.load()));
  const size_t commands =
      std::min(std::max(limits.max_unhandled_per_peer / sessions, kLeastUnhandled), limits.max_unhandled_per_session);
  commands_share_.SetMost(static_cast<int64_t>(commands));
  most_unwritten_ = std::clamp(limits.outbox_bytes_per_peer / 4 / sessions, kLeastUnwritten, kMostUnwritten);
}

std::optional<SessionCall::Stop> SessionCall::TakeRest() {
  if (!ready_.empty() || rest_.empty()) return std::nullopt;
  const std::lock_guard checking(checking_mu_);
  {
    std::lock_guard lock(mu_);
    if (ended()) return std::nullopt;
  }
  for (int64_t room = std::clamp<int64_t>(commands_share_.room(), 1, kCommandsPerTurn); room > 0 && !rest_.empty();
       --room) {
    Scratch scratch;
    auto* command = scratch.Make<v1::SessionCommand>();
    std::string problem;
    if (!rest_.Next(command, &problem)) {
      if (problem.empty()) break;
      return Broken(std::move(problem));
    }
    if (opened_ && !command->has_open()) {
      ready_.push_back(Check(*command));
    } else if (auto stop = Open(*command)) {
      return stop;
    }
  }
  return std::nullopt;
}

void SessionCall::GoOn() {
  std::optional<Stop> stop = TakeRest();
  if (!stop) {
    std::lock_guard lock(mu_);
    if (ended()) return;
    std::string problem = Route();
    CountUse();
    if (!problem.empty()) stop = Broken(std::move(problem));
  }
  if (stop) return EndBy(*stop);
  Deliver();
  {
    std::lock_guard lock(mu_);
    if (ended()) return;
  }
  if (routed_ == ready_.size()) {
    routed_ = 0;
    ready_.clear();
  }
  const bool all = ready_.empty() && rest_.empty();
  if (!HasRoom()) {
    rest_.Compact();
    waits_for_room_ = true;
    // Inputs that were handled before that have woken nobody.
    if (!HasRoom() || !waits_for_room_.exchange(false)) return;
  }
  if (all) return StartReadAfterTurn(&in_);
  StartYield();
}

void SessionCall::Send() {
  Deliver();
  ReadOn();
}

void SessionCall::ReadOn() {
  if (waits_for_room_ && HasRoom() && waits_for_room_.exchange(false)) GoOn();
}

}  // namespace distlock::rpc
