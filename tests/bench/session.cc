// SPDX-License-Identifier: Apache-2.0
#include "bench/session.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace distlock::bench {
namespace {

constexpr auto kBeatInterval = std::chrono::milliseconds(900);
constexpr size_t kOpenedAtOnce = 100;  // before their heartbeats begin

std::string Encode(const v1::SessionCommand& command) {
  v1::SessionRequest request;
  *request.add_commands() = command;
  return request.SerializeAsString();  // requests add up by concatenation
}

}  // namespace

internal::CallThread& SharedCallThread() {
  static internal::CallThread thread;
  return thread;
}

grpc::ChannelArguments OwnConnection() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

std::string EncodeAcquire(int64_t id, const v1::LockSpec& spec) {
  v1::SessionCommand command;
  command.set_id(id);
  *command.mutable_acquire()->add_locks() = spec;
  return Encode(command);
}

std::string EncodeRelease(int64_t id, int64_t acquire_id) {
  v1::SessionCommand command;
  command.set_id(id);
  command.mutable_release()->set_acquire_id(acquire_id);
  return Encode(command);
}

bool IsReleased(const v1::SessionEvent& event) {
  return event.has_released() && event.released().outcome() == v1::RELEASE_OUTCOME_RELEASED;
}

Session::Session(const std::string& target, Handler handler, Problem& problem)
    : stub_(grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), OwnConnection())),
      handler_(std::move(handler)),
      problem_(problem) {
  context().set_wait_for_ready(true);
  v1::SessionCommand open;
  open.set_id(1);
  open.mutable_open()->set_client("distlock_bench");
  out_ = Bytes(Encode(open));
  StartCall(stub_.PrepareCall(&context(), "/distlock.v1.LockService/Session", SharedCallThread().queue()), out_);
  StartRead(&in_);
}

void Session::WaitOpened() {
  std::unique_lock lock(mu_);
  if (!changed_.wait_for(lock, kPatience, [this] { return opened_ || done_; }) || done_) {
    problem_.Fail("a session did not open");
    problem_.Check();
  }
}

void Session::Send(std::string_view command) { waiting_ += command; }

void Session::Do(const std::function<void(Session&)>& action) {
  {
    std::lock_guard lock(mu_);
    action(*this);
  }
  Write();
}

void Session::Beat() {
  Do([](Session& self) {
    if (self.closing_ || self.done_) return;
    v1::SessionCommand command;
    command.mutable_heartbeat()->set_seq(++self.beats_);
    self.Send(Encode(command));
  });
}

void Session::Goodbye() {
  bool reached = false;
  Do([&reached](Session& self) {
    self.closing_ = true;
    reached = self.opened_;
    v1::SessionCommand command;
    command.mutable_goodbye();
    if (!self.done_) self.Send(Encode(command));
  });
  if (!reached) context().TryCancel();
}

void Session::WaitEnded(std::chrono::seconds patience) {
  std::unique_lock lock(mu_);
  if (changed_.wait_for(lock, patience, [this] { return done_; })) return;
  problem_.Fail("a stream did not end after Goodbye");
  lock.unlock();
  context().TryCancel();
  lock.lock();
  changed_.wait(lock, [this] { return done_; });
}

void Session::OnReadDone(bool ok) {
  bool last = false;
  {
    std::lock_guard lock(mu_);
    if (ok) Hear();
    ended_ = !ok;
    last = ended_ && !writing_;
  }
  if (last) AllowFinish();
  if (!ok) return;
  Write();
  StartRead(&in_);
}

void Session::Hear() {
  for (const v1::SessionEvent& event : in_.events()) {
    if (event.has_opened()) {
      opened_ = true;
      changed_.notify_all();
    } else if (!event.has_heartbeat_ack()) {
      handler_(*this, event);
    }
  }
}

void Session::Write() {
  {
    std::lock_guard lock(mu_);
    if (writing_ || waiting_.empty() || ended_) return;
    out_ = Bytes(waiting_);
    waiting_.clear();
    writing_ = true;
  }
  StartWrite(&out_);
}

void Session::OnWriteDone(bool ok) {
  bool last = false;
  {
    std::lock_guard lock(mu_);
    writing_ = false;
    last = ended_;
  }
  if (last) return AllowFinish();
  if (ok) Write();
}

void Session::OnDone(const grpc::Status& status) {
  std::lock_guard lock(mu_);
  if (!closing_ || !status.ok()) problem_.Fail("a stream ended: " + status.error_message());
  done_ = true;
  changed_.notify_all();
}

Sessions::Sessions(size_t count, const std::function<std::unique_ptr<Session>(size_t)>& make)
    : pulse_([this] { Beat(); }) {
  try {
    while (sessions_.size() < count) {
      std::vector<std::unique_ptr<Session>> opened;
      const size_t first = sessions_.size();
      for (size_t i = first; i < std::min(count, first + kOpenedAtOnce); ++i) opened.push_back(make(i));
      {
        std::lock_guard lock(mu_);
        std::move(opened.begin(), opened.end(), std::back_inserter(sessions_));
      }
      for (size_t i = first; i < sessions_.size(); ++i) sessions_[i]->WaitOpened();
    }
  } catch (const std::runtime_error&) {
    Close();
    throw;
  }
}

Sessions::~Sessions() { Close(); }

void Sessions::Close(std::chrono::seconds patience) {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
  }
  changed_.notify_all();
  if (pulse_.joinable()) pulse_.join();
  for (const auto& session : sessions_) session->Goodbye();
  for (const auto& session : sessions_) session->WaitEnded(patience);
  sessions_.clear();
}

void Sessions::Beat() {
  std::unique_lock lock(mu_);
  while (!changed_.wait_for(lock, kBeatInterval, [this] { return stop_; })) {
    for (const auto& session : sessions_) session->Beat();
  }
}

}  // namespace distlock::bench
