// SPDX-License-Identifier: Apache-2.0
//
// Callers: what the core tells them, and what it may tell them.
#include <algorithm>
#include <utility>

#include "callers.h"
#include "contract/error_details.h"
#include "contract/refusal.h"
#include "contract/to_proto.h"
#include "core/broker_config.h"
#include "core/check.h"

namespace distlock::fuzz {
namespace {

constexpr size_t kLeaseIdsMax = 64;

template <typename... Kinds>
bool Is(const core::Event& event) {
  return (std::holds_alternative<Kinds>(event) || ...);
}

}  // namespace

void Callers::Told(core::Notify notify) {
  const auto found = streams_.find(notify.session);
  if (found == streams_.end()) return;  // nobody listens any more
  Stream& stream = *found->second;
  if (stream.kind == Kind::kWatch) {
    DISTLOCK_CHECK((Is<core::Changed, core::Refused, core::EndStream>(notify.event)));
    if (!Is<core::Changed>(notify.event)) return End(stream.id);
    v1::LockInfo read;
    DISTLOCK_CHECK(
        read.ParseFromString(contract::LockOf(std::get<core::Changed>(notify.event).view).SerializeAsString()));
    return;
  }
  CheckAnswer(stream, notify);
  CheckPromise(stream, notify.event);
  if (Is<core::EndStream>(notify.event)) return End(stream.id);
  if (stream.kind == Kind::kSession) {
    core::LockName about;
    if (notify.request != 0) about = stream.book.OnEvent(notify.request, notify.event);
    return Push(stream, {.id = notify.request, .event = std::move(notify.event), .about = about, .made = nullptr});
  }
  if (const auto* granted = std::get_if<core::Granted>(&notify.event))
    Remember(contract::GrantOf(*granted, stream.max_hold));
  if (const auto* refused = std::get_if<core::Refused>(&notify.event)) {
    DISTLOCK_CHECK(contract::ErrorOf(contract::RefusalOf(*refused, {})).code() != 0);
  }
  const bool waits = std::any_of(stream.answers.begin(), stream.answers.end(),
                                 [](const auto& answer) { return answer.second == Answered::kNot; });
  const bool last = stream.kind == Kind::kHold ? Is<core::Refused, core::Lost, core::Released>(notify.event)
                                               : !waits && !Is<core::Queued>(notify.event);
  if (last) End(stream.id);
}

// One final answer to each request, and none to what was not asked.
void Callers::CheckAnswer(Stream& stream, const core::Notify& notify) {
  const bool about_stream = Is<core::HeartbeatAck, core::Draining, core::EndStream>(notify.event);
  DISTLOCK_CHECK(about_stream == (notify.request == 0));
  if (about_stream) return;
  const auto found = stream.answers.find(notify.request);
  DISTLOCK_CHECK(found != stream.answers.end());
  const bool granted = Is<core::Granted>(notify.event);
  DISTLOCK_CHECK(!granted || found->second == Answered::kNot);
  const bool about_lease = Is<core::AtRisk, core::Renewed, core::Lost>(notify.event);
  DISTLOCK_CHECK(!about_lease || found->second == Answered::kGranted);
  if (granted) {
    found->second = Answered::kGranted;
  } else if (!Is<core::Queued, core::AtRisk, core::Renewed>(notify.event)) {
    stream.answers.erase(found);  // whatever comes now was not asked
  } else {
    DISTLOCK_CHECK(!Is<core::Queued>(notify.event) || found->second == Answered::kNot);
  }
}

void Callers::CheckPromise(const Stream& stream, const core::Event& event) const {
  const bool on_stream = stream.kind == Kind::kSession || stream.kind == Kind::kHold;
  const auto check = [](core::Duration valid_for, core::Duration most) {
    DISTLOCK_CHECK(valid_for >= core::Duration::zero() && valid_for <= most);
  };
  if (const auto* granted = std::get_if<core::Granted>(&event)) {
    // A detached lease's is counted from when it was asked for; a repeat has the terms of the first request.
    check(granted->valid_for, on_stream ? limits_.validity : granted->ttl + granted->waited);
  }
  if (const auto* renewed = std::get_if<core::Renewed>(&event)) check(renewed->valid_for, limits_.validity);
  if (const auto* done = std::get_if<core::RenewDone>(&event)) {
    // Counted from when it was called.
    check(done->valid_for, stream.ttl + core::BrokerConfig{}.store_timeout);
  }
  if (const auto* at_risk = std::get_if<core::AtRisk>(&event)) check(at_risk->valid_for, limits_.validity);
  if (const auto* ack = std::get_if<core::HeartbeatAck>(&event)) {
    check(ack->valid_for, limits_.validity);
    for (const core::LeaseLimit& limit : ack->limits) check(limit.valid_for, limits_.validity);
  }
}

void Callers::Push(Stream& stream, rpc::Outgoing out) {
  if (!stream.outbox.Push(std::move(out))) return End(stream.id);
  Flush(stream);
}

void Callers::Flush(Stream& stream) {
  std::deque<rpc::Outgoing> batch;
  stream.outbox.Take(rpc::kMaxEventsPerMessage, ~size_t{0}, batch);
  if (batch.empty()) return;
  v1::SessionResponse packed, read;
  rpc::Pack(batch, &packed);
  DISTLOCK_CHECK(read.ParseFromString(packed.SerializeAsString()));
  DISTLOCK_CHECK(batch.empty());
  for (const v1::SessionEvent& event : read.events()) {
    DISTLOCK_CHECK(event.event_case() != v1::SessionEvent::EVENT_NOT_SET);
    if (event.has_granted()) Remember(event.granted());
  }
}

void Callers::Remember(const v1::Grant& grant) {
  if (lease_ids_.size() < kLeaseIdsMax) lease_ids_.push_back(grant.lease_id());
}

bool Callers::AllAnswered() const {
  for (const auto& [id, stream] : streams_) {
    if (stream->leaving) continue;
    for (const auto& [request, answered] : stream->answers) {
      if (answered == Answered::kNot) return false;
    }
  }
  return true;
}

}  // namespace distlock::fuzz
