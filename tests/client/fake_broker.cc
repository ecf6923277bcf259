// SPDX-License-Identifier: Apache-2.0
#include "fake_broker.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <grpcpp/server_builder.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "distlock/wire/status_details.h"

namespace distlock::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

std::string NewFolder() {
  char name[] = "/tmp/distlock-client-XXXXXX";
  return ::mkdtemp(name);
}

void SetMillis(int64_t ms, google::protobuf::Duration* to) {
  to->set_seconds(ms / 1000);
  to->set_nanos(static_cast<int32_t>(ms % 1000 * 1'000'000));
}

void AddRefusal(int64_t id, v1::RefusalReason reason, const std::string& message, v1::SessionResponse& out) {
  v1::SessionEvent* event = out.add_events();
  event->set_id(id);
  event->mutable_refused()->set_reason(reason);
  event->mutable_refused()->set_message(message);
}

}  // namespace

grpc::Status StatusWith(grpc::StatusCode code, const std::string& message, const std::string& reason,
                        std::chrono::milliseconds retry_delay) {
  wire::RpcStatus status;
  status.set_code(code);
  status.set_message(message);
  wire::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain(wire::kErrorDomain);
  wire::PackDetail(info, status.add_details());
  if (retry_delay.count() > 0) {
    wire::RetryInfo retry;
    SetMillis(retry_delay.count(), retry.mutable_retry_delay());
    wire::PackDetail(retry, status.add_details());
  }
  return {code, message, status.SerializeAsString()};
}

Folder::Folder() : path_(NewFolder()) {}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

FakeBroker::FakeBroker(Behaviour behaviour, std::string address)
    : address_(address.empty() ? absl::StrCat("unix://", folder_.path(), "/broker.sock") : std::move(address)),
      behaviour_(std::move(behaviour)) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (absl::EndsWith(address_, ":0")) address_ = absl::StrCat(address_.substr(0, address_.size() - 1), port);
}

FakeBroker::~FakeBroker() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  BreakStreams();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void FakeBroker::Set(const std::function<void(Behaviour&)>& change) {
  absl::MutexLock lock(&mu_);
  change(behaviour_);
}

void FakeBroker::BreakStreams() {
  absl::MutexLock lock(&mu_);
  for (Peer* session : sessions_) session->context->TryCancel();
}

void FakeBroker::Send(const v1::SessionEvent& event) {
  absl::MutexLock lock(&mu_);
  v1::SessionResponse out;
  *out.add_events() = event;
  if (!sessions_.empty()) sessions_.back()->stream->Write(out);
}

void FakeBroker::Drain() {
  Set([](Behaviour& b) {
    b.draining = true;
    b.open_status = StatusWith(grpc::StatusCode::UNAVAILABLE, "going down", "DRAINING");
  });
  v1::SessionEvent draining;
  draining.mutable_draining()->mutable_time_left()->set_seconds(30);
  Send(draining);
}

int64_t FakeBroker::LastAcquireId() {
  absl::MutexLock lock(&mu_);
  return last_acquire_;
}

void FakeBroker::Hold(const std::string& key) {
  absl::MutexLock lock(&mu_);
  locks_[key].queue.push_back({nullptr, 0});
}

void FakeBroker::Free(const std::string& key) {
  absl::MutexLock lock(&mu_);
  v1::SessionResponse none;
  if (!locks_[key].queue.empty()) Remove(key, 0, nullptr, none);
}

bool FakeBroker::HeldByAnybody(const std::string& key) {
  absl::MutexLock lock(&mu_);
  return !locks_[key].queue.empty();
}

size_t FakeBroker::Messages() {
  absl::MutexLock lock(&mu_);
  return messages_;
}

size_t FakeBroker::Streams() {
  absl::MutexLock lock(&mu_);
  return streams_;
}

size_t FakeBroker::Count(v1::SessionCommand::CommandCase kind) { return Commands(kind).size(); }

std::vector<v1::SessionCommand> FakeBroker::Commands(v1::SessionCommand::CommandCase kind) {
  absl::MutexLock lock(&mu_);
  std::vector<v1::SessionCommand> found;
  for (const v1::SessionCommand& command : received_) {
    if (command.command_case() == kind) found.push_back(command);
  }
  return found;
}

std::vector<FakeBroker::Look> FakeBroker::Looks() {
  absl::MutexLock lock(&mu_);
  return looks_;
}

bool FakeBroker::WaitFor(const std::function<bool(FakeBroker&)>& condition) {
  const absl::Time until = absl::Now() + kPatience;
  while (!condition(*this)) {
    if (absl::Now() > until) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

grpc::Status FakeBroker::Session(grpc::ServerContext* context, Writer* stream) {
  Peer session{.stream = stream, .context = context};
  {
    absl::MutexLock lock(&mu_);
    ++streams_;
    if (!behaviour_.open_status.ok()) return behaviour_.open_status;
    sessions_.push_back(&session);
  }
  v1::SessionRequest request;
  while (!session.left && session.broken_rule.empty() && stream->Read(&request)) {
    absl::MutexLock lock(&mu_);
    ++messages_;
    v1::SessionResponse out;
    for (const v1::SessionCommand& command : request.commands()) {
      received_.push_back(command);
      Handle(session, command, out);
    }
    if (out.events_size() > 0) stream->Write(out);
  }
  absl::MutexLock lock(&mu_);
  sessions_.erase(std::find(sessions_.begin(), sessions_.end(), &session));
  Forget(session);
  if (!session.broken_rule.empty()) return {grpc::StatusCode::INVALID_ARGUMENT, session.broken_rule};
  return session.left ? grpc::Status::OK : grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
}

grpc::Status FakeBroker::GetLock(grpc::ServerContext* context, const v1::GetLockRequest* request,
                                 v1::GetLockResponse* response) {
  absl::MutexLock lock(&mu_);
  looks_.push_back({.watch = false, .at = absl::Now(), .peer = context->peer()});
  response->mutable_lock()->set_key(request->key());
  return behaviour_.look_status;
}

// Sends the lock's state once, and no change.
grpc::Status FakeBroker::WatchLock(grpc::ServerContext* context, const v1::WatchLockRequest* request,
                                   grpc::ServerWriter<v1::WatchLockResponse>* stream) {
  absl::MutexLock lock(&mu_);
  looks_.push_back({.watch = true, .at = absl::Now(), .peer = context->peer()});
  if (!behaviour_.look_status.ok()) return behaviour_.look_status;
  if (!behaviour_.watch_status.ok()) return behaviour_.watch_status;
  v1::WatchLockResponse response;
  response.mutable_lock()->set_key(request->key());
  stream->Write(response);
  while (!context->IsCancelled() && !stopping_)
    mu_.AwaitWithTimeout(absl::Condition(&stopping_), absl::Milliseconds(1));
  return grpc::Status::CANCELLED;
}

void FakeBroker::Handle(Peer& session, const v1::SessionCommand& command, v1::SessionResponse& out) {
  const bool needs_id = !command.has_heartbeat() && !command.has_goodbye();
  if (needs_id && !session.ids.insert(command.id()).second) session.broken_rule = "an id that is 0 or was used before";
  if (session.left) session.broken_rule = "a command after Goodbye";
  if (!session.opened && !command.has_open()) session.broken_rule = "no Open first";
  session.opened = true;
  switch (command.command_case()) {
    case v1::SessionCommand::kOpen: {
      if (!behaviour_.answer_open) return;
      v1::SessionOpened* opened = out.add_events()->mutable_opened();
      SetMillis(behaviour_.validity_ms, opened->mutable_validity());
      opened->add_features("adopt");
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
    case v1::SessionCommand::kHeartbeat: {
      if (!behaviour_.answer_heartbeats) return;
      session.last_seq = command.heartbeat().seq();
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
      return;
    }
    default:
      return;
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
  queue.front().session->stream->Write(theirs);
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
