// SPDX-License-Identifier: Apache-2.0
#include "bench/session.h"

#include <stdexcept>
#include <utility>

#include "bench/wire_scan.h"

namespace distlock::bench {
namespace {

constexpr size_t kChunkBytes = 32 * 1024;  // half of the largest message that the broker accepts by default
constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kBeatInterval = std::chrono::milliseconds(900);

}  // namespace

internal::CallThread& SharedCallThread() {
  static internal::CallThread thread;
  return thread;
}

grpc::ByteBuffer Bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

grpc::ChannelArguments OwnConnection() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

std::string Encode(const v1::SessionCommand& command) {
  v1::SessionRequest request;
  *request.add_commands() = command;
  return request.SerializeAsString();  // requests add up by concatenation
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

v1::LockSpec Spec(const std::string& key, bool wait) {
  v1::LockSpec spec;
  spec.set_key(key);
  if (!wait) spec.mutable_max_wait();
  return spec;
}

std::string Describe(const SeenEvent& event) {
  if (event.kind == v1::SessionEvent::EVENT_NOT_SET) return "the stream ended: " + std::string(event.bytes);
  v1::SessionEvent parsed;
  if (!parsed.ParseFromArray(event.bytes.data(), static_cast<int>(event.bytes.size()))) return "an unreadable event";
  return "unexpected event: " + parsed.ShortDebugString();
}

Session::Session(const Target& target, Handler handler)
    : channel_(grpc::CreateCustomChannel(target.name, target.credentials, OwnConnection())),
      stub_(channel_),
      handler_(std::move(handler)) {
  context().set_wait_for_ready(true);
  v1::SessionCommand open;
  open.set_id(1);
  open.mutable_open()->set_client("distlock_bench");
  const grpc::Slice slice(Encode(open));
  out_ = grpc::ByteBuffer(&slice, 1);
  writing_ = true;
  StartCall(stub_.PrepareCall(&context(), "/distlock.v1.LockService/Session", SharedCallThread().queue()), out_);
  StartRead(&in_);
}

Session::~Session() { Close(); }

void Session::WaitOpened() {
  std::unique_lock lock(mu_);
  if (!changed_.wait_for(lock, kPatience, [this] { return opened_ || done_; }) || done_) {
    throw std::runtime_error("the session did not open: " +
                             (done_ ? status_.error_message() : std::string("no answer")));
  }
}

void Session::Send(std::string_view command) {
  if (waiting_.empty() || waiting_.back().size() + command.size() > kChunkBytes) {
    waiting_.emplace_back();
    if (!spare_.empty()) {
      waiting_.back().swap(spare_.back());
      spare_.pop_back();
    }
  }
  waiting_.back() += command;
}

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
    const bool first = !std::exchange(self.closing_, true);
    reached = self.opened_;
    v1::SessionCommand command;
    command.mutable_goodbye();
    if (first && !self.done_) self.Send(Encode(command));
  });
  if (!reached) context().TryCancel();  // the server was not reached
}

std::string Session::Close(std::chrono::seconds patience) {
  Goodbye();
  std::unique_lock lock(mu_);
  if (!changed_.wait_for(lock, patience, [this] { return done_; })) {
    failed_ = true;
    lock.unlock();
    context().TryCancel();
    lock.lock();
    changed_.wait(lock, [this] { return done_; });
  }
  if (failed_) return "the stream did not end after Goodbye";
  return status_.ok() ? "" : "the stream ended with " + status_.error_message();
}

void Session::OnReadDone(bool ok) {
  if (!ok) return End();
  grpc::Slice slice;
  if (!in_.TrySingleSlice(&slice).ok()) in_.DumpToSingleSlice(&slice);
  {
    std::lock_guard lock(mu_);
    const std::string_view message(reinterpret_cast<const char*>(slice.begin()), slice.size());
    const bool readable = ScanEvents(message, [this](const SeenEvent& event) {
      if (event.kind == v1::SessionEvent::kOpened) {
        opened_ = true;
        changed_.notify_all();
      } else if (event.kind != v1::SessionEvent::kHeartbeatAck) {
        handler_(*this, event);
      }
    });
    if (!readable) handler_(*this, {.bytes = "by an unreadable message"});
  }
  Write();
  in_.Clear();
  StartRead(&in_);
}

void Session::Write() {
  {
    std::lock_guard lock(mu_);
    if (writing_ || waiting_.empty() || ended_) return;
    const grpc::Slice slice(waiting_.front());
    out_ = grpc::ByteBuffer(&slice, 1);
    waiting_.front().clear();
    spare_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
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

void Session::End() {
  bool last = false;
  {
    std::lock_guard lock(mu_);
    ended_ = true;
    last = !writing_;
  }
  if (last) AllowFinish();
}

void Session::OnDone(const grpc::Status& status) {
  std::lock_guard lock(mu_);
  status_ = status;
  done_ = true;
  if (!closing_) handler_(*this, {.bytes = status_.error_message()});
  changed_.notify_all();
}

Pulse::Pulse(std::vector<Session*> sessions) {
  thread_ = std::thread([this, sessions = std::move(sessions)] {
    std::unique_lock lock(mu_);
    while (!changed_.wait_for(lock, kBeatInterval, [this] { return stop_; })) {
      for (Session* session : sessions) session->Beat();
    }
  });
}

Pulse::~Pulse() {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<Session*> Pointers(const std::vector<std::unique_ptr<Session>>& sessions) {
  std::vector<Session*> pointers;
  for (const auto& session : sessions) pointers.push_back(session.get());
  return pointers;
}

}  // namespace distlock::bench
