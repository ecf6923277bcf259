// SPDX-License-Identifier: Apache-2.0
#include "link.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "convert.h"

namespace distlock::internal {
namespace {

constexpr int64_t kDefaultValidity = 3'000'000'000;

int64_t LastIdOf(const v1::SessionCommand& command) {
  return command.id() + std::max({command.acquire().locks_size(), command.adopt().hold_count(), 1}) - 1;
}

}  // namespace

void Link::Begin(int64_t now_ns, int64_t grace_ns) {
  *this = Link();
  session = SessionBelief(now_ns, grace_ns);
  streaming = true;
}

void Link::OnOpened(const v1::SessionOpened& with, int64_t now_ns) {
  const auto can = [&](const char* what) {
    return std::find(with.features().begin(), with.features().end(), what) != with.features().end();
  };
  opened = true;
  adopts = can("adopt");
  authenticates = can("authenticate");
  store = with.store_id();
  if (with.max_message_bytes() > 0) message_bytes = static_cast<size_t>(with.max_message_bytes());
  if (with.max_unanswered() > 0) most_ahead = static_cast<size_t>(with.max_unanswered());
  validity_ns = ToNs(with.validity()) > 0 ? ToNs(with.validity()) : kDefaultValidity;
  interval_ns = with.has_heartbeat_interval() ? ToNs(with.heartbeat_interval()) : validity_ns / 3;
  interval_ns = std::max(interval_ns, kShortestPause);
  const int64_t sent_ns = session.last_sent_ns();
  session.Ack(0, validity_ns, now_ns);
  if (leaving) return;
  heartbeat_at_ns = AddNs(sent_ns, interval_ns);
  // Late: much of what this session may be believed in is gone already.
  heartbeat_due = heartbeat_due || now_ns - sent_ns > validity_ns / 6;
}

void Link::End(const std::string& why, int64_t now_ns, Effects& fx) {
  // The goodbye of a session frees all that it has.
  const Answer gone{.refusal = Refusal{.reason = RefusalReason::kUnreachable, .message = why}, .broken = !leaving};
  // In the order of the commands.
  std::map<int64_t, Heard> unanswered(std::make_move_iterator(asked.begin()), std::make_move_iterator(asked.end()));
  *this = Link();
  for (auto& [id, heard] : unanswered) heard(gone, now_ns, fx);
}

void Link::Add(int64_t id, Write write, size_t bytes) {
  if (!leaving) waiting_.push_back({id, bytes, std::move(write)});
}

void Link::Ask(int64_t id, Write write, Heard heard, size_t bytes) {
  Add(id, std::move(write), bytes);
  asked.emplace(id, std::move(heard));
}

bool Link::OnAnswer(int64_t id, const Answer& answer, int64_t now_ns, Effects& fx) {
  const auto question = asked.find(id);
  if (question == asked.end()) return false;
  Heard heard = std::move(question->second);
  asked.erase(question);
  heard(answer, now_ns, fx);
  return true;
}

void Link::Goodbye() {
  // The broker frees with the session what it has not heard of.
  const size_t room = most_ahead - std::min(ahead_.size(), most_ahead);
  if (waiting_.size() > room) waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(room), waiting_.end());
  Add(0, [](v1::SessionCommand& command) { command.mutable_goodbye(); });
  leaving = true;
  heartbeat_due = false;
  heartbeat_at_ns = kNever;
}

void Link::BeatBeforeHalf(int64_t deadline_ns, int64_t now_ns) {
  if (leaving || now_ns >= deadline_ns) return;
  heartbeat_at_ns = std::min(heartbeat_at_ns, AddNs(now_ns, std::max((deadline_ns - now_ns) / 2, kShortestPause)));
}

void Link::BeatForGrant(int64_t deadline_ns, int64_t now_ns) {
  const bool unanswered = session.unanswered_since_ns() != kNever;
  const bool recent = unanswered && now_ns - session.last_sent_ns() < validity_ns / 6;
  if (!leaving && !recent && deadline_ns - now_ns < validity_ns / 2) heartbeat_due = true;
  BeatBeforeHalf(deadline_ns, now_ns);
}

void Link::Tick(int64_t now_ns) {
  if (now_ns < heartbeat_at_ns) return;
  heartbeat_due = true;
  heartbeat_at_ns = AddNs(now_ns, interval_ns);
}

bool Link::Pack(int64_t now_ns, v1::SessionRequest& message) {
  if (!HasNext()) return false;
  size_t bytes = kCommandBytes;
  if (std::exchange(heartbeat_due, false)) {
    message.add_commands()->mutable_heartbeat()->set_seq(session.Send(now_ns));
    heartbeat_at_ns = AddNs(now_ns, interval_ns);
  }
  while (!waiting_.empty() && MayLeave(waiting_.front())) {
    Command& next = waiting_.front();
    bytes += next.bytes;
    if (bytes > message_bytes && message.commands_size() > 0) break;
    v1::SessionCommand& command = *message.add_commands();
    next.write(command);
    if (next.id != 0) {
      command.set_id(next.id);
      ahead_.emplace(next.id, LastIdOf(command));
    }
    waiting_.pop_front();
  }
  return true;
}

void Link::OnEvent(int64_t id) {
  const auto after = ahead_.upper_bound(id);
  if (after == ahead_.begin()) return;
  const auto found = std::prev(after);
  if (id <= found->second) ahead_.erase(found);
}

}  // namespace distlock::internal
