// SPDX-License-Identifier: Apache-2.0
#include "fake_broker.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <grpcpp/server_builder.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "distlock/wire/status_details.h"
#include "fake_session.h"

namespace distlock::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

std::string NewFolder() {
  char name[] = "/tmp/distlock-client-XXXXXX";
  return ::mkdtemp(name);
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

FakeBroker::FakeBroker(Behaviour behaviour, std::string address, Watcher watcher)
    : watcher_(std::move(watcher)),
      address_(address.empty() ? absl::StrCat("unix://", folder_.emplace().path(), "/broker.sock")
                               : std::move(address)),
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
  v1::SessionResponse out;
  *out.add_events() = event;
  Send(0, out);
}

bool FakeBroker::Send(int64_t session, const v1::SessionResponse& response) {
  absl::MutexLock lock(&mu_);
  Peer* const peer = FindSession(session);
  if (peer != nullptr) peer->Send(response);
  return peer != nullptr;
}

bool FakeBroker::End(int64_t session, const grpc::Status& status) {
  absl::MutexLock lock(&mu_);
  Peer* const peer = FindSession(session);
  if (peer != nullptr) peer->End(status);
  return peer != nullptr;
}

FakeBroker::Peer* FakeBroker::FindSession(int64_t session) {
  if (session == 0) return sessions_.empty() ? nullptr : sessions_.back();
  const auto found = std::find_if(sessions_.begin(), sessions_.end(), [&](Peer* p) { return p->number == session; });
  return found == sessions_.end() ? nullptr : *found;
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

grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* FakeBroker::Session(
    grpc::CallbackServerContext* context) {
  absl::MutexLock lock(&mu_);
  auto* const session = new Peer(*this, context, static_cast<int64_t>(++streams_));
  if (behaviour_.open_status.ok()) {
    sessions_.push_back(session);
    See(*session, {.kind = Sight::Kind::kSession, .at_ns = BootNow()});
  }
  session->Begin(behaviour_.open_status);
  return session;
}

void FakeBroker::See(const Peer& session, Sight sight) {
  if (!watcher_) return;
  sight.session = session.number;
  watcher_(sight);
}

void FakeBroker::OnMessage(Peer& session, const v1::SessionRequest& request, int64_t at_ns) {
  ++messages_;
  See(session, {.kind = Sight::Kind::kMessage, .at_ns = at_ns, .bytes = request.ByteSizeLong()});
  v1::SessionResponse out;
  for (const v1::SessionCommand& command : request.commands()) {
    received_.push_back(command);
    See(session, {.kind = Sight::Kind::kCommand, .at_ns = at_ns, .command = &command});
    Handle(session, command, out);
  }
  if (out.events_size() > 0) session.Send(std::move(out));
  if (!session.broken_rule.empty()) {
    See(session, {.kind = Sight::Kind::kBrokenRule, .at_ns = at_ns, .rule = session.broken_rule});
    session.End({grpc::StatusCode::INVALID_ARGUMENT, session.broken_rule});
  } else if (session.left) {
    session.End(grpc::Status::OK);
  }
}

void FakeBroker::OnOver(Peer& session, bool half_closed) {
  const auto found = std::find(sessions_.begin(), sessions_.end(), &session);
  if (found == sessions_.end()) return;  // refused
  sessions_.erase(found);
  See(session, {.kind = half_closed ? Sight::Kind::kHalfClosed : Sight::Kind::kOver, .at_ns = BootNow()});
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

}  // namespace distlock::testing
