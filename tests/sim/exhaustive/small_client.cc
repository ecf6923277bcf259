// SPDX-License-Identifier: Apache-2.0
#include "exhaustive/small_client.h"

#include <algorithm>

#include "exhaustive/setting.h"

namespace distlock::sim {

using core::Instant;

namespace {

int64_t Ns(Instant at) { return at.time_since_epoch().count(); }

}  // namespace

void SmallClient::Connect(core::SessionId session, Instant now) {
  session_ = session;
  broken_ = false;
  phase_ = Phase::kIdle;
  belief_ = {};
  request_ = last_request_ = 0;
  beats_ = {now};
  next_beat_ = now + kSmallValidity / 3;
  open_.clear();
}

core::RequestId SmallClient::Ask(const core::OwnerId& owner) {
  phase_ = Phase::kWaiting;
  owner_ = owner;
  token_ = 0;
  belief_ = {};
  request_ = ++last_request_;
  open_[request_] = Answered::kNot;
  return request_;
}

core::RequestId SmallClient::GiveUp() {
  belief_ = {};
  phase_ = Phase::kIdle;
  open_.erase(request_);  // a Lost that crosses the release is no answer any more
  open_[++last_request_] = Answered::kNot;
  return last_request_;
}

uint64_t SmallClient::Beat(Instant now) {
  beats_.push_back(now);
  next_beat_ = now + kSmallValidity / 3;
  return beats_.size() - 1;
}

size_t SmallClient::unanswered() const {
  return static_cast<size_t>(
      std::count_if(open_.begin(), open_.end(), [](const auto& entry) { return entry.second == Answered::kNot; }));
}

std::string SmallClient::CheckAnswer(const core::Notify& notify) {
  if (notify.request == 0) return "";
  const auto found = open_.find(notify.request);
  if (found == open_.end()) return "an answer to what was not asked, or a second one";
  const bool about_lease =
      std::holds_alternative<core::AtRisk>(notify.event) || std::holds_alternative<core::Renewed>(notify.event);
  const bool of_waiter =
      std::holds_alternative<core::Granted>(notify.event) || std::holds_alternative<core::Queued>(notify.event);
  const bool granted = found->second == Answered::kGranted;
  if (of_waiter && granted) return "a grant, or a place in the queue, after the grant";
  if ((about_lease || std::holds_alternative<core::Lost>(notify.event)) && !granted) return "news of no lease";
  if (std::holds_alternative<core::Granted>(notify.event)) {
    found->second = Answered::kGranted;
  } else if (!about_lease && !of_waiter) {
    open_.erase(found);
  }
  return "";
}

std::string SmallClient::Told(const core::Notify& notify, Instant now) {
  if (broken_ || notify.session != session_) return "";
  std::string wrong = CheckAnswer(notify);
  if (!wrong.empty()) return wrong;
  if (const auto* ack = std::get_if<core::HeartbeatAck>(&notify.event)) {
    OnAck(*ack, now);
    return "";
  }
  ++news_;
  if (const auto* granted = std::get_if<core::Granted>(&notify.event)) {
    phase_ = Phase::kHeld;
    token_ = granted->token;
    if (granted->owner != owner_) return "a grant for another owner";
    if (granted->echo_seq >= beats_.size()) return "a grant that echoes no heartbeat";
    belief_.Set(Ns(beats_[granted->echo_seq] + granted->valid_for), Ns(now));
    belief_.Deliver(Ns(now));
  } else if (std::holds_alternative<core::EndStream>(notify.event)) {
    return "a stream that heartbeats was ended";
  } else if (notify.request == request_ && !std::holds_alternative<core::Queued>(notify.event) &&
             !std::holds_alternative<core::AtRisk>(notify.event) &&
             !std::holds_alternative<core::Renewed>(notify.event)) {
    phase_ = Phase::kIdle;
    belief_ = {};
  }
  return "";
}

void SmallClient::OnAck(const core::HeartbeatAck& ack, Instant now) {
  if (phase_ != Phase::kHeld) return;
  core::Duration valid_for = ack.valid_for;
  bool limited = false;
  for (const core::LeaseLimit& limit : ack.limits) {
    if (limit.acquire != request_) continue;
    valid_for = limit.valid_for;
    limited = true;
  }
  const int64_t until = Ns(beats_[ack.seq] + valid_for);
  limited ? belief_.Set(until, Ns(now)) : belief_.Extend(until, Ns(now));
  belief_.Deliver(Ns(now));
}

bool SmallClient::Lapses(Instant now) {
  belief_.Notice(Ns(now));
  return phase_ == Phase::kHeld && belief_.lapsed();
}

Instant SmallClient::believes_until(Instant now) const {
  return Believes(now) ? Instant(core::Duration(belief_.deadline_ns())) : core::kNever;
}

void SmallClient::AddTo(Digest& digest) const {
  digest.Add(session_);
  digest.Add(static_cast<uint64_t>(phase_) * 8 + (broken_ ? 4 : 0) + (belief_.delivered() ? 2 : 0) +
             (belief_.lapsed() ? 1 : 0));
  digest.Add(request_);
  digest.Add(last_request_);
  digest.Add(token_);
  digest.Add(static_cast<uint64_t>(belief_.deadline_ns()));
  digest.Add(static_cast<uint64_t>(Ns(next_beat())));
  for (const auto& [request, answered] : open_) digest.Add(request * 2 + static_cast<uint64_t>(answered));
}

}  // namespace distlock::sim
