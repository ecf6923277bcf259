// SPDX-License-Identifier: Apache-2.0
//
// FakeBroker: what it answers to each command.
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <cstddef>
#include <utility>

#include "fake_broker.h"
#include "fake_session.h"

namespace distlock::testing {
namespace {

void AddRefusal(int64_t id, v1::RefusalReason reason, const std::string& message, v1::SessionResponse& out) {
  v1::SessionEvent* event = out.add_events();
  event->set_id(id);
  event->mutable_refused()->set_reason(reason);
  event->mutable_refused()->set_message(message);
}

}  // namespace

void FakeBroker::Handle(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out) {
  const bool needs_id = !command.has_heartbeat() && !command.has_goodbye() && !command.has_cancel();
  if ((needs_id || command.id() != 0) && !session.ids.insert(command.id()).second)
    session.broken_rule = "an id that is 0 or was used before";
  // A request of several locks takes an id for each.
  const int more = command.has_acquire() ? command.acquire().locks_size() : command.adopt().hold_count();
  for (int i = 1; i < more; ++i) {
    if (!session.ids.insert(command.id() + i).second) session.broken_rule = "an id of several that was used before";
  }
  if (session.left) session.broken_rule = "a command after Goodbye";
  if (!session.opened && !command.has_open()) session.broken_rule = "no Open first";
  session.opened = true;
  switch (command.command_case()) {
    case v1::SessionCommand::kOpen: {
      if (!behaviour_.answer_open) return;
      out.add_events()->set_id(command.id());
      v1::SessionOpened* opened = out.mutable_events()->rbegin()->mutable_opened();
      SetMillis(behaviour_.validity_ms, opened->mutable_validity());
      for (const std::string& feature : behaviour_.features) opened->add_features(feature);
      opened->set_store_id(behaviour_.store_id);
      opened->set_max_message_bytes(behaviour_.max_message_bytes);
      opened->set_max_leases(behaviour_.max_leases);
      opened->set_max_unanswered(behaviour_.max_unanswered);
      const int64_t interval_ms = behaviour_.heartbeat_interval_ms;
      SetMillis(interval_ms > 0 ? interval_ms : behaviour_.validity_ms / 3, opened->mutable_heartbeat_interval());
      return;
    }
    case v1::SessionCommand::kAcquire:
      return Acquire(session, command, out);
    case v1::SessionCommand::kAdopt:
      return Adopt(session, command, out);
    case v1::SessionCommand::kRelease:
      return Release(session, command, out);
    case v1::SessionCommand::kCancel:
      return Cancel(session, command, out);
    case v1::SessionCommand::kGoodbye:
      session.left = true;
      return;
    case v1::SessionCommand::kHeartbeat:
      return Ack(session, command.heartbeat().seq(), out);
    case v1::SessionCommand::kDowngrade:
      if (!behaviour_.answer_downgrades) return;
      out.add_events()->set_id(command.id());
      out.mutable_events()->rbegin()->mutable_downgraded();
      return;
    default:
      return;
  }
}

void FakeBroker::Ack(Peer& session, int64_t seq, v1::SessionResponse& out) {
  if (!behaviour_.answer_heartbeats) return;
  session.last_seq = seq;
  v1::HeartbeatAck* ack = out.add_events()->mutable_heartbeat_ack();
  ack->set_seq(session.last_seq);
  SetMillis(behaviour_.validity_ms, ack->mutable_valid_for());
  if (behaviour_.limit_ms < 0) return;
  for (const auto& [key, locked] : locks_) {
    if (locked.queue.empty() || locked.queue.front().session != &session) continue;
    v1::LeaseLimit* limit = ack->add_limits();
    limit->set_acquire_id(locked.queue.front().acquire_id);
    SetMillis(behaviour_.limit_ms, limit->mutable_valid_for());
  }
}

void FakeBroker::Acquire(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out) {
  last_acquire_ = command.id();
  if (behaviour_.draining) {
    return AddRefusal(command.id(), v1::REFUSAL_REASON_DRAINING, "the broker is going down", out);
  }
  if (!behaviour_.grant) return;
  const v1::LockSpec& spec = command.acquire().locks(0);
  std::deque<Owner>& queue = locks_[spec.key()].queue;
  const bool one_try = spec.has_max_wait() && spec.max_wait().seconds() == 0 && spec.max_wait().nanos() == 0;
  if (!queue.empty() && one_try) {
    AddRefusal(command.id(), v1::REFUSAL_REASON_LOCK_HELD, "held by somebody", out);
    out.mutable_events()->rbegin()->mutable_refused()->add_holders()->set_owner("somebody");
    return;
  }
  queue.push_back({&session, command.id()});
  if (queue.size() == 1) return Grant(spec.key(), queue.front(), out);
  v1::SessionEvent* event = out.add_events();
  event->set_id(command.id());
  event->mutable_queued()->set_position(static_cast<int32_t>(queue.size()) - 2);
}

void FakeBroker::Grant(const std::string& key, const Owner& owner, v1::SessionResponse& out) {
  v1::SessionEvent* event = out.add_events();
  event->set_id(owner.acquire_id);
  v1::Grant* grant = event->mutable_granted();
  grant->set_key(key);
  grant->set_fencing_token(++token_);
  grant->set_lease_id(absl::StrCat("secret-", token_));
  grant->set_holder_id(absl::StrCat("holder-", token_));
  grant->set_echo_seq(owner.session->last_seq);
  SetMillis(behaviour_.grant_stale ? 0 : behaviour_.validity_ms, grant->mutable_valid_for());
}

void FakeBroker::Adopt(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out) {
  if (!behaviour_.answer_adoptions) return;
  if (behaviour_.refuse_adoptions != v1::REFUSAL_REASON_UNSPECIFIED) {
    return AddRefusal(command.id(), behaviour_.refuse_adoptions, "not here", out);
  }
  const v1::AdoptLease& adopt = command.adopt();
  std::deque<Owner>& queue = locks_[adopt.lock().key()].queue;
  if (!queue.empty()) queue.pop_front();
  queue.push_front({&session, command.id()});
  Grant(adopt.lock().key(), queue.front(), out);
  v1::Grant* const grant = out.mutable_events()->rbegin()->mutable_granted();
  // "secret-101", or "secret-101 moved": the token is the same.
  const std::vector<std::string> parts = absl::StrSplit(adopt.lease_id(), absl::ByAnyChar("- "));
  int64_t token = 0;
  if (parts.size() > 1 && absl::SimpleAtoi(parts[1], &token)) grant->set_fencing_token(token);
  grant->set_lease_id(absl::StrCat("secret-", token, " moved"));
}

void FakeBroker::Release(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out) {
  v1::ReleaseOutcome outcome = v1::RELEASE_OUTCOME_ALREADY_GONE;
  for (auto& [key, locked] : locks_) {
    if (locked.queue.empty()) continue;
    const Owner& owner = locked.queue.front();
    if (owner.session != &session || owner.acquire_id != command.release().acquire_id()) continue;
    outcome = v1::RELEASE_OUTCOME_RELEASED;
    Remove(key, 0, &session, out);
    break;
  }
  if (!behaviour_.answer_releases) return;
  v1::SessionEvent* event = out.add_events();
  event->set_id(command.id());
  event->mutable_released()->set_outcome(outcome);
}

void FakeBroker::Cancel(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out) {
  for (auto& [key, locked] : locks_) {
    for (size_t i = 0; i < locked.queue.size(); ++i) {
      const Owner& owner = locked.queue[i];
      if (owner.session != &session || owner.acquire_id != command.cancel().acquire_id()) continue;
      Remove(key, i, &session, out);
      break;
    }
  }
  if (!behaviour_.answer_cancels) return;
  AddRefusal(command.cancel().acquire_id(), v1::REFUSAL_REASON_CANCELLED, "withdrawn", out);
}

void FakeBroker::Remove(const std::string& key, size_t position, Peer* telling, v1::SessionResponse& out) {
  std::deque<Owner>& queue = locks_[key].queue;
  queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(position));
  if (position > 0 || queue.empty() || queue.front().session == nullptr) return;
  if (queue.front().session == telling) return Grant(key, queue.front(), out);
  v1::SessionResponse theirs;
  Grant(key, queue.front(), theirs);
  queue.front().session->Send(std::move(theirs));
}

void FakeBroker::Forget(Peer& session) {
  v1::SessionResponse none;
  for (auto& [key, locked] : locks_) {
    for (size_t i = locked.queue.size(); i-- > 0;) {
      if (locked.queue[i].session == &session) Remove(key, i, &session, none);
    }
  }
}

}  // namespace distlock::testing
