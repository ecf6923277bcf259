// SPDX-License-Identifier: Apache-2.0
//
// A client of a small system, and what it believes: by design 4.2, so that the broker's promises are judged by
// themselves. It also watches that each request gets one final answer. A plain part of the simulation that owns it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/messages.h"
#include "exhaustive/belief.h"
#include "exhaustive/digest.h"

namespace distlock::sim {

class SmallClient {
 public:
  enum class Phase : uint8_t { kIdle, kWaiting, kHeld };

  // A new stream, opened (which counts as heartbeat 0) at `now`.
  void Connect(core::SessionId session, core::Instant now);
  // The broker has seen the stream end, the client has not.
  void Break() { broken_ = true; }
  core::RequestId Ask(const core::OwnerId& owner);
  // Gives up belief; the release must still be sent.
  core::RequestId GiveUp();
  // Gives up belief; the cancel of request() must still be sent.
  void Withdraw() { belief_ = {}; }
  uint64_t Beat(core::Instant now);

  // "" when that may be said now, else what is wrong.
  std::string Told(const core::Notify& notify, core::Instant now);
  bool Believes(core::Instant now) const { return belief_.Believes(now.time_since_epoch().count()); }
  // True: it held the lock and has seen its belief end; it must give the lock back.
  bool Lapses(core::Instant now);
  // The end of belief; kNever when there is none.
  core::Instant believes_until(core::Instant now) const;

  Phase phase() const { return phase_; }
  bool broken() const { return broken_; }
  // A release is not answered yet.
  bool releasing() const { return phase_ != Phase::kWaiting && unanswered() > 0; }
  size_t unanswered() const;
  core::SessionId session() const { return session_; }
  core::RequestId request() const { return request_; }
  const core::OwnerId& owner() const { return owner_; }
  uint64_t token() const { return token_; }
  core::Instant next_beat() const { return broken_ ? core::kNever : next_beat_; }
  uint64_t news() const { return news_; }  // grows with everything it is told but acks

  void AddTo(Digest& digest) const;

 private:
  enum class Answered : uint8_t { kNot, kGranted };

  std::string CheckAnswer(const core::Notify& notify);
  void OnAck(const core::HeartbeatAck& ack, core::Instant now);

  core::SessionId session_ = 0;
  bool broken_ = false;
  Phase phase_ = Phase::kIdle;
  core::RequestId request_ = 0;  // the last acquire
  core::RequestId last_request_ = 0;
  core::OwnerId owner_{};
  uint64_t token_ = 0;
  Belief belief_;
  std::vector<core::Instant> beats_;  // when each heartbeat of this stream was sent
  core::Instant next_beat_{};
  std::map<core::RequestId, Answered> open_;  // not finally answered
  uint64_t news_ = 0;
};

}  // namespace distlock::sim
